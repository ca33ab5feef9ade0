"""A report as rows of typed cells: what every writer writes. A cell's type is its Python type."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from decimal import Decimal

from seamline.domain.cut_state import Headline

# Moments carry a zone. None: nothing is known, or nothing applies.
Cell = str | int | Decimal | date | datetime | None


@dataclass(frozen=True, slots=True)
class Row:
    """`is_wrong`: a person has to look at it. Writers mark it by a sign, never by a colour alone. `is_waiting`: nothing
    is wrong, and something waits for a person; texts mark it by another sign."""

    cells: tuple[Cell, ...]
    is_wrong: bool = False
    is_waiting: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """One table of a report. `totals`: the cells of its last line; () where nothing is added up. `is_record`: each row
    is one thing with many properties, which texts show one under the other. `is_whole`: no text of it is cut off, as
    of statements to mend something."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    totals: tuple[Cell, ...] = ()
    is_record: bool = False
    is_whole: bool = False

    def column(self, number: int) -> Iterator[Cell]:
        """Its cells, the total last."""
        yield from (row.cells[number] for row in self.rows)
        if self.totals:
            yield self.totals[number]

    def is_numeric(self, number: int) -> bool:
        """Whether the column holds numbers, so that they stand on its right side."""
        return any(isinstance(cell, int | Decimal) for cell in self.column(number))


@dataclass(frozen=True, slots=True)
class Report:
    """`verdict` is the worst of what the report is about. `at`: when the newest of its comparisons ended, so that a
    report which is written twice is the same file. Blocks without a row are left out."""

    subject: str
    verdict: Headline
    blocks: tuple[Block, ...]
    zone: tzinfo = UTC
    at: datetime | None = None
