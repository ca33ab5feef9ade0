"""Verdicts of reconciliation. An error is never MATCH."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum

from seamline.domain.digest import KeyedDigest
from seamline.domain.phrase import phrase
from seamline.domain.witness import Witness


class Verdict(StrEnum):
    MATCH = "MATCH"
    BREAK = "BREAK"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_RUN = "NOT_RUN"


SEVERITY = (Verdict.MATCH, Verdict.NOT_RUN, Verdict.INCONCLUSIVE, Verdict.BREAK)


def worst(verdicts: list[Verdict]) -> Verdict:
    """The verdict of a whole from those of its parts; of nothing: NOT_RUN."""
    return max(verdicts, key=SEVERITY.index) if verdicts else Verdict.NOT_RUN


# How the reason of a parked table begins; behind it stands what the person wrote.
_PARKED = "parked: "


class BreakType(StrEnum):
    MISSING = "missing"  # in the source, not in the destination
    UNEXPECTED = "unexpected"  # in the destination, not in the source
    VALUE = "value"  # same key, other values
    DUPLICATE = "duplicate"
    SCHEMA = "schema"
    FINDING = "finding"
    SYSTEMATIC = "systematic"  # so many rows that they have one cause; they are not listed one by one


@dataclass(frozen=True, slots=True)
class Break:
    """One difference. `key` is canonical JSON text; for keyless tables the canonical row. `source` and `destination`
    hold the differing columns' canonical texts (None where that side has no row). `identity`: of one that is stored;
    "" of every other. `witness`: what the log says of it, where it was asked; another one does not make it another
    break. `beside`: where an amount or its currency differs, the other of both, which both sides have alike: columns of
    the table's control totals."""

    table: str
    type: BreakType
    key: str
    source: dict[str, str | None] | None = None
    destination: dict[str, str | None] | None = None
    identity: str = field(default="", kw_only=True, compare=False)
    witness: Witness | None = field(default=None, kw_only=True, compare=False)
    beside: dict[str, str | None] | None = field(default=None, kw_only=True, compare=False)


@dataclass(frozen=True, slots=True)
class ControlTotal:
    """Rows and a number of one group on both sides. `group` e.g. ("EUR",); `column`: what was added up, or in words
    what the number is (`measure.named`); "" counts rows only."""

    table: str
    column: str
    group: tuple[str, ...]
    source_rows: int
    destination_rows: int
    source_sum: Decimal | None = None
    destination_sum: Decimal | None = None

    @property
    def is_equal(self) -> bool:
        return self.source_rows == self.destination_rows and _is_same(self.source_sum, self.destination_sum)


def _is_same(one: Decimal | None, other: Decimal | None) -> bool:
    """NaN, which PostgreSQL's numeric may hold, is the same as NaN here, though Decimal's rule denies it."""
    return one == other or (one is not None and other is not None and one.is_nan() and other.is_nan())


@dataclass(frozen=True, slots=True)
class TableVerdict:
    """`position` is the text of the one position both sides were read at. `reason` is required unless MATCH.

    `digest`: of all the destination's rows that were compared; not stored with the verdict.
    """

    table: str
    verdict: Verdict
    reason: str = ""
    position: str = ""
    source_rows: int | None = None
    destination_rows: int | None = None
    totals: tuple[ControlTotal, ...] = ()
    breaks: tuple[Break, ...] = field(default=())
    breaks_total: int = 0
    digest: KeyedDigest | None = None

    @property
    def is_left_out(self) -> bool:
        """Whether it was not compared for a reason, as one without history: that makes a cut partial and not wrong."""
        return self.verdict is Verdict.NOT_RUN and bool(self.reason)

    @property
    def is_parked(self) -> bool:
        """Whether a person took the table out of the guarantee. Without a reason it is no parked table."""
        begins, why = self.reason[: len(_PARKED)], self.reason[len(_PARKED) :]
        return self.verdict is Verdict.NOT_RUN and begins == _PARKED and bool(why.strip())


def reasons_of(tables: Sequence[TableVerdict]) -> dict[str, list[str]]:
    """By reason the tables that have it: what is the same of several is said once. Tables without one are not in it."""
    found: dict[str, list[str]] = {}
    for table in tables:
        if table.reason:
            found.setdefault(table.reason, []).append(table.table)
    return found


def shared_reasons(tables: Sequence[TableVerdict]) -> dict[str, list[str]]:
    """The same of reasons that several tables have which were not compared."""
    known = [table for table in tables if table.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN)]
    return {reason: names for reason, names in reasons_of(known).items() if len(names) > 1}


def parked(table: str, why: str) -> TableVerdict:
    """The verdict of a table that a person parked: always reported, and no blemish of the others."""
    return TableVerdict(table, Verdict.NOT_RUN, f"{_PARKED}{why}")


def of_guaranteed(tables: Sequence[TableVerdict]) -> Verdict:
    """The verdict of the tables that are not parked. Where all are, or there is none: NOT_RUN."""
    return worst([table.verdict for table in tables if not table.is_parked])


def of_cut(tables: Sequence[TableVerdict]) -> Verdict:
    """The verdict of a cut. A table that was left out for a reason, as one without history, makes it partial and not
    wrong; where all were, nothing is known: NOT_RUN."""
    return worst([table.verdict for table in tables if not table.is_left_out])


def nothing_compared(tables: Sequence[TableVerdict]) -> str:
    """What must be said beside a MATCH that no row stands behind; empty for every other verdict, and where one does."""
    rows = sum((table.source_rows or 0) + (table.destination_rows or 0) for table in tables)
    is_hollow = {table.verdict for table in tables} - {Verdict.NOT_RUN} == {Verdict.MATCH} and rows == 0
    return phrase("nothing was compared: 0 rows in all tables") if is_hollow else ""
