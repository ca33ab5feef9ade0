"""Which cut of a database people read: one version of a date, with those of its tables whose rows are there.

All tables of it stand at its position. A table that this version lacks is not taken from an earlier one, whose position
is another.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from seamline.domain.cut_names import cut_of_tag, tag_of
from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position, position_from_json

# Asks the database in the snapshot in which rows are read; `%s` stands for each value.
Ask = Callable[[str, Sequence[Any]], Sequence[Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class CutTables:
    """How a kind keeps its catalogue of cuts. `at`: where, in quotes. `relation` and `rows`: columns of `cut_table`
    that name what holds a table's rows, and how many. `is_shown`: the condition on `t`, a row of it, under which
    readers see them."""

    at: str
    relation: str
    rows: str
    is_shown: str = "TRUE"


@dataclass(frozen=True, slots=True)
class CutTable:
    """`relation`: what holds the rows of the table."""

    relation: str
    rows: int


@dataclass(frozen=True, slots=True)
class FoundCut:
    """`left_out`: by table the reason why the cut lacks it."""

    business_date: date
    version: int
    position: Position
    tables: Mapping[str, CutTable]
    left_out: Mapping[str, str]

    @property
    def tag(self) -> str:
        return tag_of(self.business_date, self.version)


_CUT = (
    "SELECT c.business_date, c.version, c.position, c.left_out, c.expired_at IS NOT NULL FROM {at}.cut AS c"
    " WHERE c.sync = %s AND c.published_at IS NOT NULL AND {which}"
    " ORDER BY c.expired_at IS NOT NULL, c.business_date DESC, c.version DESC LIMIT 1"
)
_IS_PROVEN = (
    "EXISTS (SELECT 1 FROM {at}.cut_table AS t WHERE t.sync = c.sync AND t.business_date = c.business_date"
    " AND t.version = c.version AND t.is_proven AND {shown})"
)
_TABLES = (
    "SELECT t.table_name, t.{relation}, t.{rows} FROM {at}.cut_table AS t"
    " WHERE t.sync = %s AND t.business_date = %s AND t.version = %s AND {shown} ORDER BY t.table_name"
)
_IS_THERE = (
    "SELECT 1 FROM {at}.cut_table AS t"
    " WHERE t.sync = %s AND t.business_date = %s AND t.version = %s AND t.table_name = %s AND {shown}"
)


def find_cut(ask: Ask, kept: CutTables, stream: StreamId, place: date | str | None) -> FoundCut | None:
    """`place`: as of `kinds.reading.place_of`; of a date the newest version that is there. None: nothing was ever
    published for it. Refused: its rows are gone."""
    which, values = _condition(kept, place)
    rows = ask(_CUT.format(at=kept.at, which=which), (stream.sync, *values))
    if not rows:
        return None
    day, version, position, left_out, has_expired = rows[0]
    asked = _TABLES.format(at=kept.at, relation=kept.relation, rows=kept.rows, shown=kept.is_shown)
    tables = {
        str(name): CutTable(str(relation), int(count))
        for name, relation, count in ask(asked, (stream.sync, day, version))
    }
    if has_expired or not tables:
        raise ended(stream, day, int(version))
    return FoundCut(day, int(version), position_from_json(_document(position)), tables, _document(left_out))


def required(found: FoundCut | None, stream: StreamId, at: date | str) -> FoundCut:
    """Refused: nothing was found for what was asked."""
    if found is None:
        raise Refused(
            f"{stream} has no cut {'proven' if at == 'proven' else f'of {at}'}",
            hint=f"name a date that has one; `./seamline cuts {stream.sync}` lists them",
            sync=stream.sync,
        )
    return found


def require_there(ask: Ask, kept: CutTables, stream: StreamId, cut: tuple[date, int], table: str) -> None:
    """Refused: the rows of this table of a cut that was found before are gone."""
    day, version = cut
    if not ask(_IS_THERE.format(at=kept.at, shown=kept.is_shown), (stream.sync, day, version, table)):
        raise ended(stream, day, version)


def ended(stream: StreamId, day: date, version: int) -> Refused:
    return Refused(
        f"{tag_of(day, version)} of {stream} has ended: its rows are gone by the sync's rule of keeping cuts",
        hint=f"`nightly.keep` says for how long a cut is kept, and `./seamline cuts {stream.sync}` which there are; a"
        " date that is made again has a new version",
        sync=stream.sync,
    )


def require_same_place(now: LedgerRow | None, stream: StreamId, place: tuple[int, int], position: Position) -> None:
    """Refused: the live tables do not stand any more where they were found. `place`: epoch and offset, for a repair
    changes rows and leaves the position."""
    if now is None or (now.epoch, now.next_offset) != place:
        raise Refused(
            f"{stream} went on: its tables stood at {position} when they were looked for, and do so no more",
            hint="a database keeps no earlier state of live tables. Pause the stream while you read"
            f" (`./seamline stream pause {stream.sync} {stream.destination}`), or read a cut, which stays as it is",
            sync=stream.sync,
            position=str(position),
        )


def require_one_position(ledger: LedgerRow | None, stream: StreamId) -> LedgerRow:
    """Refused: the stream was never published, or its tables are not at one position yet."""
    if ledger is None:
        raise Refused(f"{stream} was never published there", hint="onboard the sync first", sync=stream.sync)
    if ledger.is_catching_up:
        raise Refused(
            f"the tables of {stream} stand at different positions until its catch-up is over",
            hint="wait for that: `./seamline status` shows it; or read a cut",
            sync=stream.sync,
        )
    return ledger


def _condition(kept: CutTables, place: date | str | None) -> tuple[str, tuple[Any, ...]]:
    if place is None:
        return _IS_PROVEN.format(at=kept.at, shown=kept.is_shown), ()
    if isinstance(place, date):
        return "c.business_date = %s", (place,)
    return "c.business_date = %s AND c.version = %s", cut_of_tag(place)


def _document(found: Any) -> Any:
    return json.loads(found) if isinstance(found, (str, bytes)) else found
