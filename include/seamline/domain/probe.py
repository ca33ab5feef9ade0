"""Probe rows: the edge values of a table's columns as rows, written several times, once or more per path.

Row `r` of block `b` has the key `b * rows + r + 1`. Block 0 comes with the snapshot, the others through the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import cycle, islice

from seamline.domain.canonical import FLOAT_KINDS
from seamline.domain.catalogue import Column, Table

KEY = "seamline_row"
NULL = "NULL"
# A span applies its changes of a table in another way when they are more than a few hundred rows, and in a third way
# when a number is among them that JSON has no number for.
_MANY_ROWS = 300
_WORDS = frozenset({"'NaN'", "'Infinity'", "'-Infinity'"})


class ProbePath(StrEnum):
    SNAPSHOT = "snapshot"
    INSERT = "log, insert"
    UPDATE = "log, update"
    BATCH = "log, large transaction"
    BATCH_WITH_WORDS = "log, large transaction with NaN"


_SINGLE = (ProbePath.SNAPSHOT, ProbePath.INSERT, ProbePath.UPDATE)


@dataclass(frozen=True, slots=True)
class Default:
    """The DEFAULT of a user's column as the source prints it. `left_out`: why the probe has none; "" where it has."""

    text: str
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe of the user's table `of`: its name, and the literals that go into each of its columns.

    Rows from number `plain_rows` on hold NaN or infinity in a FLOAT or DOUBLE. No row takes a value from `defaults`:
    they are there because a connector could put them where the source has NULL.
    """

    of: Table
    name: str
    values: Mapping[str, Sequence[str]]
    plain_rows: int
    defaults: Mapping[str, Default] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of the user's columns that the probe has; one that takes none of its values is left out."""
        return tuple(column for column in self.of.columns if column.name in self.values)

    @property
    def rows(self) -> int:
        return max(map(len, self.values.values()))

    @property
    def keys(self) -> list[int]:
        return [key for path in ProbePath for block in self.blocks(path) for key in self._keys_of(path, block)]

    def blocks(self, path: ProbePath) -> range:
        """The blocks of a path; none where the path has no rows of its own to take."""
        if path in _SINGLE:
            return range(_SINGLE.index(path), _SINGLE.index(path) + 1)
        first = len(_SINGLE)
        words = first + -(-_MANY_ROWS // self.plain_rows)
        if path is ProbePath.BATCH:
            return range(first, words)
        return range(words, words + -(-_MANY_ROWS // self.rows)) if self.rows > self.plain_rows else range(0)

    def rows_of(self, path: ProbePath) -> int:
        """How many rows of a block the path takes."""
        return self.plain_rows if path is ProbePath.BATCH else self.rows

    def literals(self, *, ahead: int = 0) -> list[list[str]]:
        """A block's rows: each column's values in turn, from its value number `ahead` on."""
        return [
            [values[(number + ahead) % len(values)] for values in self.values.values()] for number in range(self.rows)
        ]

    def value_at(self, column: str, key: int) -> str:
        values = self.values[column]
        return values[(key - 1) % self.rows % len(values)]

    def path_of(self, key: int) -> ProbePath:
        return next(path for path in ProbePath if (key - 1) // self.rows in self.blocks(path))

    def _keys_of(self, path: ProbePath, block: int) -> range:
        return range(block * self.rows + 1, block * self.rows + 1 + self.rows_of(path))


def probe_of(
    table: Table, name: str, values: Mapping[str, Sequence[str]], defaults: Mapping[str, Default] | None = None
) -> Probe:
    """The probe with the numbers that JSON has none for in rows of their own, behind all others."""
    inexact = {column.name for column in table.columns if column.kind in FLOAT_KINDS}
    words = {column: [v for v in literals if column in inexact and v in _WORDS] for column, literals in values.items()}
    plain = {column: [v for v in values[column] if v not in words[column]] for column in values}
    plain_rows = max(1, *map(len, plain.values())) if plain else 0
    arranged = {
        column: [*islice(cycle(literals), plain_rows), *words[column]] if words[column] else literals
        for column, literals in plain.items()
    }
    return Probe(table, name, arranged, plain_rows, defaults or {})


@dataclass(frozen=True, slots=True)
class StoredUnlike:
    """A value of row `key` that is stored unlike the one that came with the snapshot, both as text; None is NULL, or no
    row."""

    column: str
    key: int
    by_snapshot: str | None
    stored: str | None
