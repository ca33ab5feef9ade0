"""`seamline.hudi_table`: which folder each table lies in, and at which instant the ledger has it."""

from typing import ClassVar

from seamline.databases.postgres.client import Session
from seamline.sinks.hudi.pointer import Pointer
from seamline.sinks.lake.folder_catalogue import FolderCatalogue


class HudiCatalogue(FolderCatalogue):
    """The rows of one warehouse."""

    table: ClassVar[str] = "seamline.hudi_table"
    state: ClassVar[str] = "instant"
    log: ClassVar[str] = ".hoodie"

    def folders(self, session: Session) -> dict[str, list[Pointer]]:
        """By namespace, every table that has a row."""
        found: dict[str, list[Pointer]] = {}
        for namespace, text in self.all_pointers(session):
            found.setdefault(namespace, []).append(Pointer.parsed(text))
        return found
