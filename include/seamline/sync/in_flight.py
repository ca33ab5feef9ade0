"""Which differences between two places were in flight: what differed is read again, and only what stands is a break.

Reading again never makes two sides equal. It divides what differed: a difference that stands unchanged on both sides,
once the tool between them has had its time, is a BREAK; one that has gone or become another one was in flight, and its
table is INCONCLUSIVE where nothing else stands.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.domain.canonical import parse_row_text, readable_text
from seamline.domain.catalogue import Column, Table
from seamline.domain.errors import SeamlineError
from seamline.domain.repair import key_of
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.ports import ReadView

_ROWS_AT_ONCE = 500
_BY_KEY = frozenset({BreakType.MISSING, BreakType.UNEXPECTED, BreakType.VALUE})
Texts = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class Again:
    """What the second reading says of one table's breaks: those that stand, and how many do not."""

    stand: tuple[Break, ...]
    moved: int


def may_be_in_flight(verdict: TableVerdict) -> bool:
    """Whether rows differ. Another schema is none that a change on its way explains."""
    return verdict.verdict is Verdict.BREAK and any(one.type is not BreakType.SCHEMA for one in verdict.breaks)


def read_again(
    table: Table,
    found: TableVerdict,
    source: ReadView,
    destination: ReadView,
    *,
    compare: Callable[[], TableVerdict],
) -> Again:
    """Look at the breaks of `found` in these later views: by their keys where each has one that can be read back, else
    by `compare`, which compares the table whole in the same views. Raises what a side does."""
    rows = [one for one in found.breaks if one.type is not BreakType.SYSTEMATIC]
    keys = [key for one in rows if (key := _canonical_key(table, one)) is not None]
    if not rows or len(keys) < len(rows):
        return _held_against(found, compare())
    mine, theirs = _rows(source, table, keys), _rows(destination, table, keys)
    stand = [one for one, key in zip(rows, keys, strict=True) if _stands(table, one, mine.get(key), theirs.get(key))]
    return _again(found, rows, stand)


def classified(found: TableVerdict, again: Again) -> TableVerdict:
    """The verdict of a table that differed, by what has become of its differences."""
    gone = f"{again.moved} differences were in flight: read again, they had gone or become others"
    if not again.stand:
        same = "" if found.source_rows is None else ", all other rows are equal"
        return replace(
            found, verdict=Verdict.INCONCLUSIVE, reason=f"{gone}{same}", breaks=(), breaks_total=0, digest=None
        )
    counted = Counter(one.type.value for one in again.stand)
    systematic = [str((one.source or {})[""]) for one in again.stand if one.type is BreakType.SYSTEMATIC]
    kinds = [] if systematic else [f"{number} {kind}" for kind, number in counted.items()]
    unread = found.breaks_total - len(found.breaks)
    parts = [*systematic, *kinds]
    if unread > 0 and not systematic:
        parts.append(f"{found.breaks_total} rows in all, of which {len(found.breaks)} were read again")
    return replace(
        found,
        reason=", ".join([*parts, *([gone] if again.moved else [])]),
        breaks=again.stand,
        breaks_total=max(found.breaks_total - again.moved, len(again.stand)),
    )


def not_read_again(found: TableVerdict, why: str) -> TableVerdict:
    """Nothing says whether what differed was in flight."""
    reason = f"{found.breaks_total} differences may be in flight, and could not be read again: {why}"
    return replace(found, verdict=Verdict.INCONCLUSIVE, reason=reason, breaks=(), breaks_total=0, digest=None)


def _again(found: TableVerdict, rows: Sequence[Break], stand: Sequence[Break]) -> Again:
    """A systematic difference is one by its examples: it stands where one of them does."""
    systematic = [one for one in found.breaks if one.type is BreakType.SYSTEMATIC] if stand else []
    return Again((*systematic, *stand), len(rows) - len(stand))


def _held_against(found: TableVerdict, later: TableVerdict) -> Again:
    """Of a table whose rows have no key that can be read back: what both comparisons found alike."""
    rows = [one for one in found.breaks if one.type is not BreakType.SYSTEMATIC]
    if later.verdict in (Verdict.INCONCLUSIVE, Verdict.NOT_RUN):
        raise SeamlineError(later.reason)
    stand = [one for one in rows if one in later.breaks]
    return _again(found, rows, stand)


def _rows(view: ReadView, table: Table, keys: Sequence[str]) -> dict[str, Texts]:
    found: dict[str, Texts] = {}
    for start in range(0, len(keys), _ROWS_AT_ONCE):
        found |= view.rows(table.name, keys[start : start + _ROWS_AT_ONCE])
    return found


def _stands(table: Table, one: Break, mine: Texts | None, theirs: Texts | None) -> bool:
    """Whether both sides hold of the row what they held."""
    return _holds(table, one.source, mine) and _holds(table, one.destination, theirs)


def _holds(table: Table, shown: Mapping[str, str | None] | None, row: Texts | None) -> bool:
    if shown is None or row is None:
        return shown is None and row is None
    return all(name in row and _shown(table.column(name), row[name]) == text for name, text in shown.items())


def _shown(column: Column, text: str | None) -> str | None:
    return None if text is None else readable_text(column, text)


def _canonical_key(table: Table, one: Break) -> str | None:
    """The key by which the row of a break is read; None where the break does not say it, or a row alone does not say
    whether the difference stands."""
    shown = {*(one.source or ()), *(one.destination or ())}
    if not table.is_keyed or one.type not in _BY_KEY or not shown <= {column.name for column in table.columns}:
        return None
    key = key_of(table, one.key)
    # By a NULL no row is found.
    return None if key is None or None in parse_row_text(table.key_columns, key) else key
