"""The rows of a table, passed on at the pace that their source allows."""

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

from seamline.kinds.bulk import PostgresCopy, TableRows
from seamline.sync.reading_pace import Pacer

PartT = TypeVar("PartT")


def paced(rows: TableRows, pacer: Pacer | None) -> TableRows:
    """The same rows. What keeps them from being read on is raised where the next part was to come."""
    if pacer is None:
        return rows
    if isinstance(rows, PostgresCopy):
        return PostgresCopy(_each(rows.blocks, pacer))
    return replace(rows, batches=_each(rows.batches, pacer))


def _each(parts: Iterator[PartT], pacer: Pacer) -> Iterator[PartT]:
    for part in parts:
        pacer.before_a_part()
        yield part
