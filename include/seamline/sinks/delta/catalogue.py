"""`seamline.delta_table`: which folder each table lies in, and at which version of its log the ledger has it."""

from typing import ClassVar

from seamline.databases.postgres.client import Session
from seamline.sinks.delta.pointer import Pointer
from seamline.sinks.lake.folder_catalogue import FolderCatalogue


class DeltaCatalogue(FolderCatalogue):
    """The rows of one warehouse."""

    table: ClassVar[str] = "seamline.delta_table"
    state: ClassVar[str] = "version"
    log: ClassVar[str] = "_delta_log"

    def folders(self, session: Session) -> dict[str, list[Pointer]]:
        """By namespace, every table that has a row."""
        found: dict[str, list[Pointer]] = {}
        for namespace, text in self.all_pointers(session):
            found.setdefault(namespace, []).append(Pointer.parsed(text))
        return found
