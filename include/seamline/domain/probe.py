"""Probe rows: the edge values of a table's columns as rows, written several times, once per path.

Row `r` of block `b` has the key `b * rows + r + 1`. Block 0 comes with the snapshot, the others through the log.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seamline.domain.catalogue import Column, Table

KEY = "seamline_row"
# A span applies its changes of a table in another way when they are more than a few hundred rows.
_MANY_ROWS = 300


class ProbePath(StrEnum):
    SNAPSHOT = "snapshot"
    INSERT = "log, insert"
    UPDATE = "log, update"
    BATCH = "log, large transaction"


_SINGLE_BLOCKS = (ProbePath.SNAPSHOT, ProbePath.INSERT, ProbePath.UPDATE)


@dataclass(frozen=True, slots=True)
class Probe:
    """The probe of the user's table `of`: its name, and the literals that go into each of its columns."""

    of: Table
    name: str
    values: Mapping[str, Sequence[str]]

    @property
    def columns(self) -> tuple[Column, ...]:
        """Those of the user's columns that the probe has; one that takes none of its values is left out."""
        return tuple(column for column in self.of.columns if column.name in self.values)

    @property
    def rows(self) -> int:
        return max(map(len, self.values.values()))

    @property
    def single_blocks(self) -> int:
        return len(_SINGLE_BLOCKS)

    @property
    def copies(self) -> int:
        """Blocks of the large transaction."""
        return -(-_MANY_ROWS // self.rows)

    @property
    def keys(self) -> range:
        return range(1, (self.single_blocks + self.copies) * self.rows + 1)

    def first_key(self, path: ProbePath) -> int:
        block = self.single_blocks if path is ProbePath.BATCH else _SINGLE_BLOCKS.index(path)
        return block * self.rows + 1

    def literals(self, *, ahead: int = 0) -> list[list[str]]:
        """A block's rows: each column's values in turn, from its value number `ahead` on."""
        return [
            [values[(number + ahead) % len(values)] for values in self.values.values()] for number in range(self.rows)
        ]

    def value_at(self, column: str, key: int) -> str:
        values = self.values[column]
        return values[(key - 1) % self.rows % len(values)]

    def path_of(self, key: int) -> ProbePath:
        block = (key - 1) // self.rows
        return _SINGLE_BLOCKS[block] if block < self.single_blocks else ProbePath.BATCH


@dataclass(frozen=True, slots=True)
class StoredUnlike:
    """A value of row `key` that is stored unlike the one that came with the snapshot, both as text; None is NULL, or no
    row."""

    column: str
    key: int
    by_snapshot: str | None
    stored: str | None
