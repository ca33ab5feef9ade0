"""At which instant of which folder a table is, as the ledger has it; and the folders of tables.

A table lies in `<warehouse>/<namespace>/<table>`, so that people find it. Where a table of that name has lain before
and left its sync, the next one gets `<table>.2`, and so on; its instants are behind all those of the earlier one.
"""

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake.files import local, namespace_folder

_PLAIN = re.compile(r"[^A-Za-z0-9_]+")
_READABLE_MAX = 100
_AGAIN = re.compile(r"[1-9][0-9]*")


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
    place = local(namespace_folder(warehouse, namespace))
    for generation in itertools.count(1):
        yield place / (_readable(table) if generation == 1 else f"{_readable(table)}.{generation}")


def folders_named(warehouse: str, namespace: str, table: str) -> list[Path]:
    """Those of them that are there, one after another: the earlier ones may be gone, with what lay there. Another table
    may lie in one, whose name makes the same folder's name."""
    place = local(namespace_folder(warehouse, namespace))
    found = {_generation(folder, table): folder for folder in place.iterdir()} if place.is_dir() else {}
    return [found[generation] for generation in sorted(found) if generation]


def folders_there(warehouse: str, namespace: str, table: str) -> list[Path]:
    """Those in which the table lies, or an earlier one of its name."""
    return [folder for folder in folders_named(warehouse, namespace, table) if _is_of(folder, table)]


def is_folder_of(folder: Path, warehouse: str, namespace: str, table: str) -> bool:
    """Whether it is there or not."""
    is_named = folder.parent == local(namespace_folder(warehouse, namespace)) and _generation(folder, table) > 0
    return is_named and _is_of(folder, table)


def pointer_of(warehouse: str, namespace: str, table: str, instant: int) -> Pointer | None:
    """Where the table lies, or lay, that has this instant; None where that is gone."""
    return pointer_in(folders_there(warehouse, namespace, table), instant)


def pointer_in(folders: Iterable[Path], instant: int) -> Pointer | None:
    return next((Pointer(folder, instant) for folder in folders if Timeline(folder).has(instant)), None)


def _readable(table: str) -> str:
    return _PLAIN.sub("-", table)[:_READABLE_MAX]


def _is_of(folder: Path, table: str) -> bool:
    timeline = Timeline(folder)
    return not timeline.is_there or timeline.newest().is_of_table(table)


def _generation(folder: Path, table: str) -> int:
    """0 of a folder of another name."""
    name, _, number = folder.name.partition(".")
    if name != _readable(table):
        return 0
    if folder.name == name:
        return 1
    return int(number) if _AGAIN.fullmatch(number) and number != "1" else 0
