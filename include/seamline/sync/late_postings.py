"""Late postings are found beside the stream, never in it: what its ledger has passed is read from the log once more.

So the span loop does nothing for it and waits for nothing. Only what lies behind a cut's position counts, only tables
with a business date, only dates that are signed; where there are none, nothing is read.
"""

import json
import logging
import threading
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import groupby, islice
from typing import Protocol

from seamline.domain.calendar import date_of
from seamline.domain.catalogue import Table
from seamline.domain.cutover import is_covered
from seamline.domain.errors import ConfigError, PositionLost, Refused, SeamlineError, TransientError
from seamline.domain.late_posting import LatePosting, LogPlace, WatchedTake, gap_of
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.plan.model import BusinessDate, NightlyPlan, SyncPlan, TablePlan
from seamline.ports import LogReader
from seamline.ports.log_images import LogImages, Texts
from seamline.sync.log_between import LoggedChange, LogStretch, Operation, changes_between

log = logging.getLogger(__name__)

# Of so many changes at a time the former rows are looked for, by one question to each signed version.
_ASKED_AT_ONCE = 5_000
# Transactions of one table in one look that are kept each by itself.
_APART = 20


class LateRecords(Protocol):
    """What is kept of late postings."""

    def keep(
        self,
        stream: StreamId,
        takes: Sequence[WatchedTake],
        *,
        now: LogPlace,
        found: Sequence[LatePosting],
        unknown: Mapping[str, str],
    ) -> None:
        """In one transaction: the postings, and that the log was looked at up to `now`. `takes`: at least one, all of
        one place. `unknown`: by run. Nothing where somebody else has looked meanwhile."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A stream with signed dates: `now`, where its ledger stands."""

    stream: StreamId
    plan: SyncPlan
    now: LogPlace
    takes: tuple[WatchedTake, ...]


class SignedRows(Protocol):
    """What signed versions of cuts hold."""

    def __call__(
        self, plan: SyncPlan, destination: str, take: WatchedTake, table: str, keys: Sequence[str]
    ) -> Mapping[str, Texts]:
        """Of the rows with these keys (`LoggedChange.key`) those that the version has. Refused: it cannot be asked."""


@dataclass(frozen=True, slots=True)
class LateTools:
    """`open_reader` gives one that is not assigned yet. `check` is called between looks at the log, and may raise."""

    records: LateRecords
    open_reader: Callable[[SyncPlan], LogReader]
    images: Callable[[SyncPlan, str], LogImages]
    signed_rows: SignedRows
    check: Callable[[], None] = lambda: None


def look(watched: Watched, tools: LateTools) -> None:
    """Read what the ledger has passed since the last look, and keep what was late.

    A repeat reads nothing twice: the place moves with what was found. TransientError: nothing was kept, look again.
    """
    by_place = sorted(watched.takes, key=lambda take: (take.place.next_offset, take.place.topic_id))
    for place, takes in groupby(by_place, key=lambda take: take.place):
        mine = list(takes)
        if place.topic_id == watched.now.topic_id and place.next_offset >= watched.now.next_offset:
            # A destination that was put back passes this part again.
            continue
        unknown = {take.run_id: gap for take in mine if (gap := gap_of(take))}
        try:
            found, not_found = _read(watched, place, mine, tools)
            unknown |= not_found
        except TransientError:
            raise
        except SeamlineError as exc:
            found = []
            unknown |= {take.run_id: f"from {place.position} to {watched.now.position}: {exc.message}" for take in mine}
        tools.records.keep(watched.stream, mine, now=watched.now, found=found, unknown=unknown)


def _read(
    watched: Watched, place: LogPlace, takes: Sequence[WatchedTake], tools: LateTools
) -> tuple[list[LatePosting], Mapping[str, str]]:
    """What was late, and by run what could not be known."""
    plan, now = watched.plan, watched.now
    if place.topic_id != now.topic_id:
        raise PositionLost(f"log topic {plan.source.log_topic} was created again since {place.position}")
    dates = {table.name: table.business_date for table in plan.tables if table.business_date is not None}
    tables = {table.name: table.target for table in plan.tables if table.name in dates}
    if not tables or plan.nightly is None:
        return [], {}
    stretch = LogStretch(plan.source.log_topic, now.topic_id, place.next_offset, now.next_offset, place.position)
    with closing(tools.open_reader(plan)) as reader:
        images = tools.images(plan, watched.stream.destination)
        changes = changes_between(reader, stretch, tables, images, check=tools.check)
        signed = SignedVersions(plan, watched.stream.destination, takes, tools.signed_rows)
        return late_postings(signed.with_rows(changes), tables, dates, takes, nightly=plan.nightly), signed.unknown


@dataclass(frozen=True, slots=True)
class Seen:
    """A change, and of a row whose former values its log does not have, what signed versions `held` of it."""

    change: LoggedChange
    held: Sequence[Texts] = ()


@dataclass(slots=True)
class SignedVersions:
    """The signed versions, asked for rows that were changed or deleted and whose former values the log does not have.
    `unknown`: by run why its version could not be asked."""

    plan: SyncPlan
    destination: str
    takes: Sequence[WatchedTake]
    rows: SignedRows
    unknown: dict[str, str] = field(default_factory=dict)

    def with_rows(self, changes: Iterable[LoggedChange]) -> Iterator[Seen]:
        """The changes in their order, each with the rows of the versions that do not see it."""
        may_move = {table.name for table in self.plan.tables if _may_move(table)}
        left = iter(changes)
        while some := list(islice(left, _ASKED_AT_ONCE)):
            unclear = [one for one in some if _is_unclear(one, may_move)]
            held = self._held(unclear)
            for change in some:
                yield Seen(change, held.get((change.table, change.key), ()) if _is_unclear(change, may_move) else ())

    def _held(self, unclear: Sequence[LoggedChange]) -> Mapping[tuple[str, str], Sequence[Texts]]:
        """By table and key what the versions that do not see the change have of the row."""
        found: dict[tuple[str, str], list[Texts]] = {}
        for take in self.takes:
            # A row that was changed often is asked for once.
            keys: dict[str, dict[str, None]] = {}
            for one in unclear:
                if not is_covered(one.position, take.cut_position):
                    keys.setdefault(one.table, {})[one.key] = None
            for table, wanted in keys.items():
                for key, row in self._asked(take, table, list(wanted), until=unclear[-1].position).items():
                    found.setdefault((table, key), []).append(row)
        return found

    def _asked(self, take: WatchedTake, table: str, keys: Sequence[str], *, until: Position) -> Mapping[str, Texts]:
        try:
            return self.rows(self.plan, self.destination, take, table, keys)
        except (Refused, ConfigError) as exc:
            self.unknown.setdefault(
                take.run_id,
                f"whether rows of {table} that were changed or deleted up to {until} were of the date: {exc.message}",
            )
            return {}


def _may_move(table: TablePlan) -> bool:
    """Whether an update can take a row to another date: a change of key is a delete and an insert in the log."""
    return table.business_date is not None and table.business_date.column not in table.target.key


def _is_unclear(change: LoggedChange, may_move: Container[str]) -> bool:
    if change.is_before_known or not change.key:
        return False
    return change.operation is Operation.DELETE or (change.operation is Operation.UPDATE and change.table in may_move)


def late_postings(
    seen: Iterable[Seen],
    tables: Mapping[str, Table],
    dates: Mapping[str, BusinessDate],
    takes: Sequence[WatchedTake],
    *,
    nightly: NightlyPlan,
) -> list[LatePosting]:
    """Of these changes those of rows that are, or were, of a watched date and are not in its cut.

    A row whose former values nobody has counts by what it became.
    """
    by_day = _by_day(takes, nightly)
    found: dict[tuple[str, str, str], _Counted] = {}
    for one in seen:
        change = one.change
        is_of_all = change.operation is Operation.TRUNCATE
        for take in takes if is_of_all else _concerned(one, dates[change.table], by_day, nightly):
            if not is_covered(change.position, take.cut_position):
                position = str(change.position)
                made = _Counted(take, change, position, _key(tables[change.table], one))
                counted = found.setdefault((take.run_id, change.table, position), made)
                counted.rows += 1
    return _bounded([one.posting for one in found.values()])


def _bounded(found: Sequence[LatePosting]) -> list[LatePosting]:
    """Of each take and table so many by themselves, and the others as one: a batch that touches all rows of a date is
    no reason to fill the platform database."""
    by_table: dict[tuple[str, str], list[LatePosting]] = {}
    for one in found:
        by_table.setdefault((one.run_id, one.table), []).append(one)
    return [one for mine in by_table.values() for one in (*mine[: _APART - 1], *_joined(mine[_APART - 1 :]))]


def _joined(found: Sequence[LatePosting]) -> list[LatePosting]:
    if not found:
        return []
    rows, transactions = (sum(getattr(one, name) for one in found) for name in ("rows", "transactions"))
    return [replace(found[-1], key=found[0].key, rows=rows, transactions=transactions)]


@dataclass(slots=True)
class _Counted:
    take: WatchedTake
    first: LoggedChange
    position: str
    key: str
    rows: int = 0

    @property
    def posting(self) -> LatePosting:
        ms = self.first.committed_ms
        at = datetime.fromtimestamp(ms / 1000, UTC) if ms else None
        return LatePosting(
            self.take.run_id, self.take.business_date, self.first.table, self.key, self.rows, self.position, at
        )


def _by_day(takes: Sequence[WatchedTake], nightly: NightlyPlan) -> Mapping[date, Sequence[WatchedTake]]:
    """The takes whose cut has the rows of a day: with a calendar also those of the closed days before its date."""
    found: dict[date, list[WatchedTake]] = {}
    for take in takes:
        for day in nightly.dates.days_of(date.fromisoformat(take.business_date)):
            found.setdefault(day, []).append(take)
    return found


def _concerned(
    seen: Seen, how: BusinessDate, by_day: Mapping[date, Sequence[WatchedTake]], nightly: NightlyPlan
) -> Iterable[WatchedTake]:
    """Each once, also where a row was of one day of a cut and is of another."""
    images = (seen.change.before, seen.change.after, *seen.held)
    days = {day for texts in images if (day := _day(texts, how, nightly)) is not None}
    return {take.run_id: take for day in days for take in by_day.get(day, ())}.values()


def _key(table: Table, seen: Seen) -> str:
    texts = seen.change.after or seen.change.before or next(iter(seen.held), None)
    if not table.is_keyed or texts is None:
        return ""
    return json.dumps({name: texts.get(name) for name in table.key}, ensure_ascii=False)


def _day(texts: Texts | None, how: BusinessDate, nightly: NightlyPlan) -> date | None:
    text = texts.get(how.column) if texts else None
    if text is None:
        return None
    return date_of(text, holds=how.holds, timezone=nightly.timezone, cut_off=nightly.cut_off)


class LateWatch:
    """Looks now and then, in a thread of its own, until it is closed. `watched`: asked each time, and is empty where
    no date is signed."""

    def __init__(self, watched: Callable[[], Sequence[Watched]], tools: LateTools, *, every_s: float = 15.0) -> None:
        self._watched = watched
        self._tools = replace(tools, check=self._require_open)
        self._every_s = every_s
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._live, name="late postings", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Does not wait: what it was about to find is found by the next one."""
        self._end.set()

    def _live(self) -> None:
        while not self._end.wait(self._every_s):
            try:
                for one in self._watched():
                    self._look(one)
            except SeamlineError as exc:
                log.warning("late postings were not looked for: %s", exc.message)
            except Exception:
                # Without this thread nothing is flagged: it goes on, and the log shows it.
                log.exception("the watch for late postings met an error of ours; it goes on")

    def _look(self, watched: Watched) -> None:
        """One stream that cannot be looked at keeps no other from it."""
        try:
            look(watched, self._tools)
        except SeamlineError as exc:
            if not self._end.is_set():
                log.warning("late postings were not looked for: stream=%s error=%s", watched.stream, exc.message)

    def _require_open(self) -> None:
        if self._end.is_set():
            raise TransientError("the stream host stops")
