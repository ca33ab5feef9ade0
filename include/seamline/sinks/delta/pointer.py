"""Which version of which folder a table is at, as the ledger has it; and the folders of tables.

A table lies in `<warehouse>/<namespace>/<table>`, so that people find it. Where a table of that name has lain before
and left its sync, the next one gets `<table>.2`, and so on: in the ledger its versions are counted from 2^32 on, so
that no number ever means another table.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

from seamline.domain.errors import Refused
from seamline.sinks.lake.files import local, namespace_folder

_PLAIN = re.compile(r"[^A-Za-z0-9_]+")
_READABLE_MAX = 100
_AGAIN = re.compile(r"\.(\d+)$")
_STEP = 1 << 32


@dataclass(frozen=True, slots=True)
class Pointer:
    """A table at one version of its log. `text` is what the catalogue's row says."""

    folder: Path
    version: int

    @classmethod
    def parsed(cls, text: str) -> "Pointer":
        folder, _, version = text.rpartition("#")
        return cls(Path(folder), int(version))

    @property
    def text(self) -> str:
        return f"{self.folder}#{self.version}"

    @property
    def number(self) -> int:
        """The version as `lake_state` and the rows of cuts have it."""
        return (generation_of(self.folder) - 1) * _STEP + self.version

    def at(self, version: int) -> "Pointer":
        return replace(self, version=version)

    def at_number(self, number: int) -> "Pointer":
        """Refused: that was a version of another table of this name."""
        if number // _STEP != generation_of(self.folder) - 1:
            raise Refused(
                f"version {version_of(number)} is of a table that left its sync; the one at {self.folder} came later",
                hint="read the folder of the earlier table: its number stands at the end of the folder's name",
            )
        return self.at(version_of(number))


def version_of(number: int) -> int:
    """The version in the table's own log, as `VERSION AS OF` takes it."""
    return number % _STEP


def folder_of(warehouse: str, namespace: str, table: str, generation: int) -> Path:
    readable = _PLAIN.sub("-", table)[:_READABLE_MAX]
    return local(namespace_folder(warehouse, namespace)) / (readable if generation == 1 else f"{readable}.{generation}")


def folder_of_number(warehouse: str, namespace: str, table: str, number: int) -> Path:
    """Where the table lies, or lay, of which this is a version."""
    return folder_of(warehouse, namespace, table, number // _STEP + 1)


def generation_of(folder: Path) -> int:
    found = _AGAIN.search(folder.name)
    return int(found[1]) if found else 1
