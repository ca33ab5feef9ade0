"""A sync's source read at one position by tasks that copy: `ReadAtOnePosition` of `seamline.sync.snapshot`.

This process opens its own views (for digests) together with the tasks' readers, so that all of them stand at one P.
The tasks copy from then on; `stage` waits for what they did. Who runs the tasks, and how a kind of source brings its
sessions to one position, is not known here.
"""

import hashlib
import logging
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from seamline import registry
from seamline.bulk.copy import Copied, CopyGroup, CopyItem, CopyTarget, copy_one, destinations_of, grouped
from seamline.bulk.resume import Resumes, SplitLoads, is_interrupted, is_refuted
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import InvariantViolated, SeamlineError, TransientError
from seamline.domain.load_progress import LoadSoFar
from seamline.domain.position import Position
from seamline.domain.reading_pace import Rate
from seamline.kinds.bulk import BulkRead, Form, LoadArea, LoadProgress, OpenedSource, StagedPlace, TableReaders, Wanted
from seamline.kinds.found import power, sink_kind, source_kind
from seamline.kinds.sink import ReadsBack
from seamline.kinds.transformed_view import as_held
from seamline.plan.model import DestinationPlan, Run, SourcePlan, SyncPlan, TablePlan
from seamline.ports import Load, ReadView, StagedView, TableRead
from seamline.sync.outcomes import outcome_of
from seamline.sync.reading_pace import Pacer

# Sessions for digests. More than the databases have cores to spare for us only makes each table slower.
VIEWS = 2
_LOOK_EVERY_S = 15.0
# A source may have to read a whole table before it has found the first row of a date: slower than this none does.
STILL_S = 1800.0
_ROWS_PER_S = 100_000
# Rows that a transform's condition rejects are read here, and none of them comes to the destination.
_FILTERED_ROWS_PER_S = 10_000


log = logging.getLogger(__name__)


class Copying(Protocol):
    """The tasks of one read, run as a whole."""

    def start(self) -> None: ...

    def is_running(self) -> bool: ...

    def wait(self, timeout_s: float) -> None:
        """Until all tasks have ended, or so long."""

    def result(self) -> list[Copied]:
        """What was copied, once all tasks have ended, or the first error of any."""

    def cancel(self) -> None:
        """End what still runs, and wait until it has."""


class _Tasks:
    """`kinds.bulk.CopyTasks` of one attempt."""

    def __init__(
        self,
        groups: Sequence[CopyGroup],
        copying_of: Callable[[Sequence[CopyGroup]], Copying],
        *,
        areas: Sequence[LoadArea],
        still_s: float,
        on_look: Callable[[Sequence[LoadProgress]], None],
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        self._on_look = on_look
        self._waits = waits
        self._groups = groups
        self._copying_of = copying_of
        self._areas = areas
        self._still_s = still_s
        self._copying: Copying | None = None

    def start(self, barrier: str) -> None:
        if not self._groups:
            return
        self._copying = self._copying_of([replace(group, barrier=barrier) for group in self._groups])
        self._copying.start()

    def is_running(self) -> bool:
        # Without any group nothing can have ended early.
        return not self._groups or (self._copying is not None and self._copying.is_running())

    def result(self) -> list[Copied]:
        if not self._groups:
            # An earlier attempt has staged all there is.
            return []
        if self._copying is None:
            raise InvariantViolated("the copy was never started")
        self._wait_while_it_moves(self._copying)
        return self._copying.result()

    def _wait_while_it_moves(self, copying: Copying) -> None:
        """A task says nothing until its end, so the destination is asked what has come."""
        moved_at, last = time.monotonic(), None
        while copying.is_running():
            copying.wait(min(_LOOK_EVERY_S, self._still_s / 4))
            if not copying.is_running():
                return
            found = [progress for area in self._areas if (progress := _progress(area))]
            self._on_look(found)
            if found != last or any(one.is_working for one in found) or self._waits():
                moved_at, last = time.monotonic(), found
            elif time.monotonic() - moved_at > self._still_s:
                copying.cancel()
                raise self._stood_still(found)

    def _stood_still(self, found: Sequence[LoadProgress]) -> TransientError:
        open_now = {name for one in found for name in one.open}
        items = [item for group in self._groups for items in group.participants for item in items]
        tables = sorted(
            {
                item.read.table.name
                for item in items
                if not open_now or any(target.place.name in open_now for target in item.targets)
            }
        )
        return TransientError(
            f"the copy has not moved for {self._still_s:.0f} s, at table {', '.join(tables)}: no row has come, and the"
            " destination works on none",
            hint="does a process that reads stand still? On a cluster look at its executor; the run reads again at a"
            " new position",
            table=tables[0],
        )

    def cancel(self) -> None:
        if self._copying is not None:
            self._copying.cancel()


class _Here:
    """The copy by this process itself, at the first time that it is asked for; each destination asks."""

    def __init__(self, items: Sequence[CopyItem], readers: TableReaders, pacer: Pacer | None = None) -> None:
        self._items = items
        self._readers = readers
        self._pacer = pacer
        self._copied: list[Copied] | SeamlineError | None = None

    def result(self) -> list[Copied]:
        if self._copied is None:
            self._copied = outcome_of(self._copy)
        if isinstance(self._copied, SeamlineError):
            raise self._copied
        return self._copied

    def _copy(self) -> list[Copied]:
        failed: dict[str, SeamlineError] = {}
        all_of_them = destinations_of(self._items)
        return [
            one
            for number, item in enumerate(self._items)
            for one in copy_one(self._readers, number, item, failed, all_of_them, self._pacer)
        ]


class SourceAtOnePosition:
    """Everything open at P: this process' views, and the copy of all tables."""

    def __init__(
        self,
        plan: SyncPlan,
        reads: Sequence[TableRead],
        opened: OpenedSource,
        copying: _Tasks | _Here,
        *,
        without_place: Mapping[str, SeamlineError],
        splits: SplitLoads | None = None,
    ) -> None:
        self._splits = splits
        self._plan = plan
        self._reads = reads
        self._opened = opened
        self._copying = copying
        self._without_place = without_place
        # Destinations that have not every table, though they had places for all.
        self.incomplete: set[str] = set()

    def views_for(self, destination: DestinationPlan) -> Sequence[ReadView]:
        return as_held(self._opened.views, self._plan.held_by(destination.name))

    @property
    def position(self) -> Position:
        return self._opened.position

    @property
    def position_time(self) -> datetime:
        return self._opened.opened_at

    @property
    def is_carried_on(self) -> bool:
        return self._splits is not None and self._splits.is_carried_on

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        """Waits until all is copied; each reader has said where it stood. Raises what kept this destination from having
        every table."""
        if destination.name in self._without_place:
            raise self._without_place[destination.name]
        try:
            return self._staged(destination)
        except SeamlineError:
            self.incomplete.add(destination.name)
            raise

    def _staged(self, destination: DestinationPlan) -> Sequence[Load]:
        copied = [one for one in self._copying.result() if one.destination == destination.name]
        for one in copied:
            if one.error is not None:
                raise one.error
            if one.proof != self._opened.proof:
                raise InvariantViolated(
                    f"table {one.table} was read at {one.proof}, not at {self._opened.proof}", table=one.table
                )
        tables = _held_by(destination, self._plan, self._reads)
        if self._splits is not None:
            return self._splits.loads(destination, copied, tables)
        done = {one.table: one for one in copied}
        return [Load(table, done[table.name].staged_as, done[table.name].rows) for table in tables]

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        view = self.views_for(destination)[0]
        (total,) = view.digests(segment, run_key=_sync_key(self._plan)).values() or [SegmentDigest()]
        return total


@dataclass(frozen=True, slots=True)
class _Begun:
    """All that is there before the source opens."""

    source: SourcePlan
    wanted: Wanted
    tasks: _Tasks
    items: Sequence[CopyItem]
    areas: Mapping[str, LoadArea]
    without_place: Mapping[str, SeamlineError]
    splits: SplitLoads | None
    pacer: Pacer | None

    def opened(self, plan: SyncPlan, reads: Sequence[TableRead], opened: OpenedSource) -> SourceAtOnePosition:
        here = opened.read_here and _Here(self.items, opened.read_here([item.read for item in self.items]), self.pacer)
        return SourceAtOnePosition(
            plan, reads, opened, here or self.tasks, without_place=self.without_place, splits=self.splits
        )

    def forget(self) -> None:
        if self.splits:
            self.splits.forget()

    def drop(self) -> None:
        for area in self.areas.values():
            _quietly_drop(area)


class RunReader:
    """Opens a run's source for reading, and the staged tables for comparing them at the same position.

    `copying_of(groups, name)` makes the tasks' run, one task per group, at most `tasks(items)` of them. It is
    ended by name when nothing has moved for `still_s` and what `longest_without_a_row_s` says. `resumes`: given where
    an attempt that is interrupted shall leave what it has staged to the next one of the run.
    `on_progress` is called every 15 s while the tasks copy. `pacer`: given where the source is read at the pace that it
    allows; each task has another of its own.
    """

    def __init__(
        self,
        run: Run,
        *,
        tasks: Callable[[Sequence[CopyItem]], int],
        copying_of: Callable[[Sequence[CopyGroup], str], Copying],
        still_s: float = STILL_S,
        resumes: Resumes | None = None,
        on_progress: Callable[[LoadSoFar], None] = lambda _: None,
        pacer: Pacer | None = None,
    ) -> None:
        self._on_progress = on_progress
        self._pacer = pacer
        self._run = run
        self._resumes = resumes
        self._still_s = still_s
        self._tasks = tasks
        self._copying_of = copying_of
        self._position: Position | None = None
        # The newest read that has ended well: what it has staged is not published yet.
        self._staged: _Begun | None = None
        # Destinations for which this read has failed.
        self._failed: set[str] = set()

    @contextmanager
    def open_read(self, reads: Sequence[TableRead]) -> Iterator[SourceAtOnePosition]:
        """Views and readers of all tables at one P. What was staged is dropped again if the caller fails, unless the
        next attempt goes on with it; that it may do until the caller lets go of it (`forget`). Waits first until the
        source may be read."""
        self._staged = None
        self._failed.clear()
        if self._pacer is not None:
            self._pacer.begin(lambda why: self._note(LoadSoFar.waiting(why)))
        begun = self._begun(reads)
        splits, tasks = begun.splits, begun.tasks
        try:
            with source_kind(begun.source.kind).open_for_tasks(begun.source, begun.wanted, tasks) as opened:
                self._position = opened.position
                if splits:
                    splits.opened(opened)
                read = begun.opened(self._run.plan, reads, opened)
                yield read
                # Its sessions end with the source: what still runs could not go on.
                tasks.cancel()
            # Perhaps because there was no room: what is there of it would stay for weeks.
            for name in read.incomplete:
                _quietly_drop(begun.areas[name])
            self._failed |= read.incomplete
            self._staged = begun
        except BaseException as error:
            tasks.cancel()
            if is_refuted(error):
                # The staged tables are the evidence of what differs; the run's next attempt drops them.
                begun.forget()
            elif not (splits and is_interrupted(error)):
                begun.drop()
                begun.forget()
            raise
        finally:
            tasks.cancel()

    def forget(self) -> None:
        """No later attempt goes on with what was staged: it is written down, or not to be trusted."""
        if self._staged is not None:
            self._staged.forget()
        self._staged = None

    def held(self) -> AbstractContextManager[None]:
        """No other attempt of the run takes over what was staged meanwhile. LoadTakenOver: one has.

        Destinations that have failed are not asked: nothing is said to be staged there, and they may be away."""
        splits = self._staged.splits if self._staged is not None else None
        return splits.held(without=self._failed) if splits else nullcontext()

    def _begun(self, reads: Sequence[TableRead]) -> "_Begun":
        plan = self._run.plan
        splits = None if self._resumes is None else self._resumes.of(self._run, reads)
        areas: Mapping[str, LoadArea] = splits.areas if splits else {}
        if splits and not splits.begin():
            splits = None
        if not splits:
            areas = {d.name: sink_kind(d.kind).load_area(d, run_id=self._run.run_id) for d in plan.destinations}
        places, without_place = (splits.places, splits.without_place) if splits else self._places(reads, areas)
        items = self._items(reads, places)
        items = splits.divided(items) if splits else items
        attempt = f"{self._run.run_id}/{secrets.token_hex(8)}"
        run_id = self._run.run_id if self._pacer else ""
        groups = grouped(items, source=plan.source, tasks=self._tasks(items), run_id=run_id)
        tasks = _Tasks(
            groups,
            lambda started: self._copying_of(started, attempt),
            areas=list(areas.values()),
            still_s=self._still_s + longest_without_a_row_s(items),
            on_look=self._reporting(reads, splits.kept_rows if splits else 0),
            waits=lambda: self._pacer is not None and self._pacer.pace.rate is Rate.WAITS,
        )
        participants = sum(len(group.participants) for group in groups)
        tables = tuple(plan.table(read.table.name).definition for read in reads)
        wanted = Wanted(attempt, VIEWS, tables, participants, self._run.business_date)
        return _Begun(plan.source, wanted, tasks, items, areas, without_place, splits, self._pacer)

    def _reporting(self, reads: Sequence[TableRead], kept: int) -> Callable[[Sequence[LoadProgress]], None]:
        """Says how far the load is, in this process' log and to `on_progress`."""
        began = time.monotonic()
        # How many rows a date has, nobody has estimated.
        is_known = not any(read.segment.date_column for read in reads)
        expected = sum(max(read.table.rows_estimate, 0) for read in reads) if is_known else 0

        def report(found: Sequence[LoadProgress]) -> None:
            if not found:
                # Nobody answers while a key is built.
                return
            rows = min(one.rows for one in found)
            size = sum(one.written_bytes for one in found)
            slow = self._pacer.pace.why if self._pacer else ""
            so_far = LoadSoFar(rows, expected, kept, size, time.monotonic() - began, slow)
            log.info("load of %s: %s", self._run.sync, so_far.in_words())
            self._note(so_far)

        return report

    def _note(self, so_far: LoadSoFar) -> None:
        noted = outcome_of(lambda: self._on_progress(so_far))
        if isinstance(noted, SeamlineError):
            # The copy does not need it, and the next look says it again.
            log.warning("how far the load of %s is, could not be kept: %s", self._run.sync, noted.message)

    @contextmanager
    def open_staged(
        self, destination: DestinationPlan, loads: Sequence[Load], count: int
    ) -> Iterator[Sequence[StagedView]]:
        """Views of the staged tables, which stand where they were read. An error is this destination's alone."""
        try:
            views = self._reads_back(destination).open_staged(
                self._run.plan.at_destination(destination.name), destination, loads, count, position=self._read_at()
            )
            with _closing(views):
                yield views
        except SeamlineError:
            self._failed.add(destination.name)
            raise

    @contextmanager
    def open_cut(self, destination: DestinationPlan, published: Sequence[PublishedTable]) -> Iterator[ReadView]:
        """A view of tables of a published cut, to be held against the source as it is now."""
        view = registry.published_view(self._run.plan, destination, published, position=self._read_at())
        with _closing([view]):
            yield view

    def _read_at(self) -> Position:
        if self._position is None:
            raise InvariantViolated("tables of a destination are compared while the source is open")
        return self._position

    @staticmethod
    def _reads_back(destination: DestinationPlan) -> ReadsBack:
        return power(sink_kind(destination.kind), ReadsBack, to="be read back for a comparison")

    def _places(
        self, reads: Sequence[TableRead], areas: Mapping[str, LoadArea]
    ) -> tuple[dict[str, Mapping[str, StagedPlace]], dict[str, SeamlineError]]:
        """By destination its places, and why the others have none. Raises where none has."""
        places: dict[str, Mapping[str, StagedPlace]] = {}
        without: dict[str, SeamlineError] = {}
        for destination in self._run.plan.destinations:
            try:
                tables = _held_by(destination, self._run.plan, reads)
                places[destination.name] = areas[destination.name].create(tables)
            except SeamlineError as exc:
                without[destination.name] = exc
        if not places:
            raise next(iter(without.values()))
        return places, without

    def _items(self, reads: Sequence[TableRead], places: Mapping[str, Mapping[str, StagedPlace]]) -> list[CopyItem]:
        plan, form = self._run.plan, form_for(self._run.plan.destinations)
        held = {one.name: plan.held_by(one.name) for one in plan.destinations if one.name in places}
        items = []
        for number, read in enumerate(reads):
            name = read.table.name
            targets = tuple(
                CopyTarget(places[one.name][name], one, held[one.name].table(name).transform)
                for one in plan.destinations
                if one.name in places
            )
            items.append(CopyItem(_bulk_read(plan.table(name), read, number, form, targets), targets))
        return items


def longest_without_a_row_s(items: Sequence[CopyItem]) -> float:
    """For how long a copy that goes on may bring no row: a whole table may be read before the first one that counts."""
    return max((item.read.table.rows_estimate / _rows_per_s(item) for item in items), default=0.0)


def _rows_per_s(item: CopyItem) -> int:
    is_filtered = any(to.transform is not None and to.transform.condition for to in item.targets)
    return _FILTERED_ROWS_PER_S if is_filtered else _ROWS_PER_S


def form_for(destinations: Sequence[DestinationPlan]) -> Form:
    """In what form a table is read once for all of them."""
    take_native = all(sink_kind(destination.kind).powers.native_copy for destination in destinations)
    return Form.NATIVE if take_native else Form.TYPED


def _bulk_read(planned: TablePlan, read: TableRead, number: int, form: Form, targets: Sequence[CopyTarget]) -> BulkRead:
    """How the source is read for what destinations shall hold of a table. Only what none of them has transformed is
    read in a native form."""
    is_transformed = any(to.transform is not None for to in targets)
    return BulkRead(planned.definition, read.segment, number, Form.TYPED if is_transformed else form)


def _held_by(destination: DestinationPlan, plan: SyncPlan, reads: Sequence[TableRead]) -> list[Table]:
    """The tables of these reads as a destination holds them."""
    held = plan.held_by(destination.name)
    return [held.table(read.table.name).target for read in reads]


@contextmanager
def _closing(views: Sequence[ReadView]) -> Iterator[None]:
    try:
        yield
    finally:
        for view in views:
            view.close()


def _progress(area: LoadArea) -> LoadProgress | None:
    """None of a destination that does not answer: its own load says so, and the others are looked at all the same."""
    try:
        return area.progress()
    except SeamlineError:
        return None


def _quietly_drop(area: LoadArea) -> None:
    """The first error is the one to report; what cannot be dropped now is dropped by the run's next attempt."""
    with suppress(SeamlineError):
        area.drop()


def _sync_key(plan: SyncPlan) -> str:
    """Stored digests have one key per sync: receipts of different runs can be compared."""
    return hashlib.sha256(f"seamline receipts of {plan.sync}".encode()).hexdigest()[:32]
