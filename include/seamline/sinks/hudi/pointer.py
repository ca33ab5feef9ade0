"""At which instant of which folder a table is, as the ledger has it; and the folders of tables.

A table lies in `<warehouse>/<namespace>/<table>`, so that people find it. Where a table of that name has lain before
and left its sync, the next one gets `<table>.2`, and so on; its instants are behind all those of the earlier one.
"""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake.files import local, namespace_folder

_PLAIN = re.compile(r"[^A-Za-z0-9_]+")
_READABLE_MAX = 100


@dataclass(frozen=True, slots=True)
class Pointer:
    """`text` is what the catalogue's row says; lake_state and the rows of cuts have the instant."""

    folder: Path
    instant: int

    @classmethod
    def parsed(cls, text: str) -> "Pointer":
        folder, _, instant = text.rpartition("#")
        return cls(Path(folder), int(instant))

    @property
    def text(self) -> str:
        return f"{self.folder}#{self.instant}"

    def at(self, instant: int) -> "Pointer":
        return replace(self, instant=instant)


def folders_of(warehouse: str, namespace: str, table: str) -> Iterator[Path]:
    """The folders that tables of this name have, one after another, without end."""
    readable = _PLAIN.sub("-", table)[:_READABLE_MAX]
    place = local(namespace_folder(warehouse, namespace))
    for generation in itertools.count(1):
        yield place / (readable if generation == 1 else f"{readable}.{generation}")


def pointer_of(warehouse: str, namespace: str, table: str, instant: int) -> Pointer | None:
    """Where the table lies, or lay, that has this instant; None where that is gone."""
    there = itertools.takewhile(Path.exists, folders_of(warehouse, namespace, table))
    return next((Pointer(folder, instant) for folder in there if Timeline(folder).has(instant)), None)
