"""A load that is divided into splits, so that an attempt that is interrupted leaves something to go on with (ADR 87).

Each split is recorded in the destination, in the transaction of its rows. The next attempt of the run keeps what is
recorded and reads the rest at a position of its own. What it has kept stands at older positions: the log brings it to
this one before anything is compared or published.
"""

import json
import logging
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property

from seamline import registry
from seamline.bulk.copy import Copied, CopyItem, CopyTarget
from seamline.bulk.log_begin import begins_through_archive
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.digest import Segment
from seamline.domain.errors import Diverged, GateFailed, PositionLost, SchemaConflict, SeamlineError, TransientError
from seamline.domain.load_splits import (
    DoneSplit,
    Split,
    SplitRead,
    Splitting,
    edges_of,
    made_as,
    ranges_of,
    read_from_json,
    read_to_json,
    why_not_kept,
)
from seamline.domain.log_keepers import held_for_load
from seamline.domain.made_from import LogPlace
from seamline.domain.position import Position
from seamline.kinds.bulk import BulkRead, KnowsRowOrder, OpenedSource, SplitArea, SplitTable, StagedPlace, StagedSplits
from seamline.kinds.found import power, sink_kind, source_kind
from seamline.kinds.sink import ResumesLoads
from seamline.kinds.source import ReadsSeparately
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import Load, PruningHolds, ReadView, TableRead
from seamline.sync.log_of_splits import SplitLog
from seamline.values.changes import ChangeBatch, under_name
from seamline.values.dated_changes import of_dates
from seamline.values.key_ranges import in_key_ranges

# As long as a run may stand between two attempts.
HOLD_S = 3 * 86_400.0
_RELEASE_S = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Resumes:
    """What lets a run's loads be resumed. `attempt`: of the run; all of its loads take over what earlier attempts have
    staged, and not what each other has (ADR 112)."""

    holds: PruningHolds
    splitting: Splitting = field(default_factory=Splitting)
    attempt: str = field(default_factory=lambda: secrets.token_hex(8))

    def of(self, run: Run, reads: Sequence[TableRead]) -> "SplitLoads | None":
        """None where this load cannot be resumed, or is too small to be worth it."""
        plan = run.plan
        rows = sum(max(read.table.rows_estimate, 0) for read in reads)
        if rows < self.splitting.rows_min or not _is_resumable(plan):
            return None
        loads = SplitLoads(run, self, reads)
        return loads if loads.splits else None

    def forget(self, run: Run) -> None:
        """For an attempt that was interrupted behind its load, before it could: nobody goes on with that any more."""
        rows = sum(max(table.definition.rows_estimate, 0) for table in run.plan.tables)
        if rows < self.splitting.rows_min or not _is_resumable(run.plan):
            return
        for destination in run.plan.destinations:
            # Where it is away the records go with the tables that they are of.
            with suppress(SeamlineError):
                area = _resuming(destination).split_area(destination, run_id=run.run_id, attempt=self.attempt)
                area.begun(())
                area.forget()
        with suppress(SeamlineError):
            # Asking again for a hold names the one that the run has.
            topic, holder = run.plan.source.log_topic, _holder(run)
            self.holds.release_log(self.holds.hold_log(topic, holder=holder, offset=0, lease_s=_RELEASE_S))


@dataclass(slots=True)
class _Kept:
    """What a destination has of the tables of this load."""

    destination: DestinationPlan
    area: SplitArea
    places: dict[str, StagedPlace] = field(default_factory=dict)
    done: dict[str, tuple[DoneSplit, ...]] = field(default_factory=dict)
    reads: dict[str, SplitRead] = field(default_factory=dict)


class SplitLoads:
    """The load of one attempt. `splits`: the tables that it divides, or keeps whole."""

    def __init__(self, run: Run, tools: Resumes, reads: Sequence[TableRead]) -> None:
        self._run = run
        self._tools = tools
        self._reads = {read.table.name: read for read in reads}
        self.splits = [read.table.name for read in reads if self._is_kept(read)]
        self._log = SplitLog(
            run.plan, lambda: registry.log_reader(run.plan), registry.logged_source(run.plan).commit_marker
        )
        self.areas = {
            one.name: _resuming(one).split_area(one, run_id=run.run_id, attempt=tools.attempt)
            for one in run.plan.destinations
        }
        self._read = secrets.token_hex(8)
        self._edges: dict[str, tuple[int, ...]] = {}
        self._kept: dict[str, _Kept] = {}
        self.without_place: dict[str, SeamlineError] = {}
        self._changes: dict[str, Mapping[str, TableChanges]] = {}
        self._place: LogPlace | None = None
        self._log_begins = 0
        self._hold = ""
        self._now: SplitRead | None = None

    # ---- before the read opens --------------------------------------------------------------------------------------

    def begin(self) -> bool:
        """Look what is there, and make places for what is not. False where the log does not say where this read would
        begin: then nothing of it can be kept. Raises where no destination has places: `without_place` says of the
        others why."""
        try:
            self._place = self._log.place(self._run.run_id)
            self._log_begins = registry.log_topics().offsets(self._place.topic)[0]
        except SeamlineError as error:
            log.warning("this load cannot be resumed if it is interrupted: %s", error.message)
            return False
        self._each(self._run.plan.destinations, self._begun)
        self._hold_log()
        self._divide()
        self._each([one.destination for one in self._kept.values()], self._make_places)
        self._say()
        return True

    def _each(self, destinations: Sequence[DestinationPlan], step: Callable[[DestinationPlan], None]) -> None:
        """One that fails keeps no other from its load."""
        for destination in destinations:
            try:
                step(destination)
            except SeamlineError as error:
                self._kept.pop(destination.name, None)
                self.without_place[destination.name] = error
        if not self._kept:
            raise next(iter(self.without_place.values()))

    def _is_kept(self, read: TableRead) -> bool:
        """A part of a table by its key restarts: it is small."""
        segment = read.segment
        is_part = segment.key_from is not None or segment.key_below is not None
        return not is_part and not self._run.plan.table(read.table.name).ahead_of

    def _begun(self, destination: DestinationPlan) -> None:
        area = self.areas[destination.name]
        kept = self._kept[destination.name] = _Kept(destination, area)
        found = area.begun([self._target(destination, name) for name in self.splits])
        if not found:
            return
        kept.reads = {one: read_from_json(json.loads(text)) for one, text in area.reads().items()}
        assert self._place is not None
        topic_id, begins = self._place.topic_id, self._begins_for(kept.reads.values())
        taken: list[StagedSplits] = []
        for name, staged in found.items():
            if not staged.done:
                continue
            why = why_not_kept(staged.done, kept.reads, topic_id=topic_id, begins=begins)
            if not why and staged.made_as != self._made_as(destination, name):
                why = "it was begun by another plan, or the table has changed"
            if not why and self._edges.setdefault(name, staged.edges) != staged.edges:
                why = "another destination has begun it with other splits"
            if why:
                log.warning("table %s restarts in %s: %s", name, destination.name, why)
            else:
                taken.append(staged)
        area.keep(taken)
        kept.places = {staged.place.table.name: staged.place for staged in taken}
        kept.done = {staged.place.table.name: staged.done for staged in taken}

    def _begins_for(self, reads: Iterable[SplitRead]) -> int:
        """From where on the log can be read. Its archive is asked only for what the log has no longer."""
        if all(read.place.offset >= self._log_begins for read in reads):
            return self._log_begins
        return self._archive_begins

    @cached_property
    def _archive_begins(self) -> int:
        assert self._place is not None
        try:
            return begins_through_archive(self._run.plan.source, self._place.topic_id, self._log_begins)
        except SeamlineError as error:
            log.warning("the archive of the log could not be looked at: %s", error.message)
            return self._log_begins

    def _hold_log(self) -> None:
        """Until the load is whole: the next attempt needs the log from the oldest of its reads on."""
        assert self._place is not None
        used = {done.read for one in self._kept.values() for splits in one.done.values() for done in splits}
        places = [read.place.offset for one in self._kept.values() for name, read in one.reads.items() if name in used]
        self._hold = self._tools.holds.hold_log(
            self._place.topic,
            holder=_holder(self._run),
            offset=min([*places, self._place.offset]),
            lease_s=HOLD_S,
        )

    def _divide(self) -> None:
        """Where no attempt has: even a row that is committed before the read opens lies in one of the ranges."""
        parts = {name: self._parts(self._reads[name]) for name in self.splits}
        wanted = [name for name in self.splits if name not in self._edges and parts[name] > 1]
        source, kind = self._run.plan.source, source_kind(self._run.plan.source.kind)
        if wanted and isinstance(kind, ReadsSeparately):
            opened = kind.open_separately(source, [self._run.plan.table(name).definition for name in wanted], 1)
            try:
                self._edges |= {name: self._edges_of(opened.views[0], name, parts[name]) for name in wanted}
            finally:
                for view in opened.views:
                    view.close()
        for name in self.splits:
            self._edges.setdefault(name, ())

    @staticmethod
    def _edges_of(view: ReadView, name: str, parts: int) -> tuple[int, ...]:
        if isinstance(view, KnowsRowOrder) and not view.is_in_key_order(name):
            log.info("table %s is one split: its rows do not lie in the order of their key", name)
            return ()
        return edges_of(view.key_span(name), parts)

    def _parts(self, read: TableRead) -> int:
        """The rows of one date are few, and ranges of keys would not find them."""
        return 1 if read.segment.date_column else self._tools.splitting.parts(read.table)

    def _make_places(self, destination: DestinationPlan) -> None:
        one = self._kept[destination.name]
        new = [
            SplitTable(self._target(one.destination, name), self._made_as(one.destination, name), self._edges[name])
            for name in self.splits
            if name not in one.places
        ]
        one.places |= one.area.create_splits(new)
        whole = [self._target(one.destination, name) for name in self._reads if name not in self.splits]
        if whole:
            one.places |= one.area.create(whole)

    def _say(self) -> None:
        for one in self._kept.values():
            for name, done in one.done.items():
                log.info(
                    "table %s goes on in %s: %d of %d splits are staged (%s rows), %d are read",
                    name, one.destination.name, len(done), self._of(name), f"{sum(each.rows for each in done):,}",
                    self._of(name) - len(done),
                )  # fmt: skip
            if one.done:
                for name in self._reads.keys() - one.done.keys():
                    log.info("table %s is read whole into %s: nothing of it is kept", name, one.destination.name)

    # ---- the read ---------------------------------------------------------------------------------------------------

    @property
    def places(self) -> Mapping[str, Mapping[str, StagedPlace]]:
        return {name: one.places for name, one in self._kept.items()}

    @property
    def is_carried_on(self) -> bool:
        """Whether any destination keeps what an earlier attempt has staged."""
        return any(one.done for one in self._kept.values())

    @property
    def kept_rows(self) -> int:
        """That need not be read again; of the destination that has the fewest."""
        return min(sum(done.rows for splits in one.done.values() for done in splits) for one in self._kept.values())

    def divided(self, items: Sequence[CopyItem]) -> list[CopyItem]:
        """The items with each table in its splits, without those that are staged."""
        found: list[CopyItem] = []
        for item in items:
            name = item.read.table.name
            if name not in self.splits:
                found.append(item)
                continue
            ranges = ranges_of(self._edges[name])
            for number, (low, below) in enumerate(ranges):
                targets = tuple(
                    self._target_of(name, number, to) for to in item.targets if not self._has(name, number, to)
                )
                if targets:
                    segment = replace(item.read.segment, key_from=low, key_below=below)
                    found.append(CopyItem(self._read_of(item.read, segment, len(ranges)), targets))
        return [replace(item, read=replace(item.read, session=number)) for number, item in enumerate(found)]

    def _read_of(self, read: BulkRead, segment: Segment, of: int) -> BulkRead:
        estimate = read.table.rows_estimate
        return replace(read, segment=segment, table=replace(read.table, rows_estimate=estimate // of))

    def _target_of(self, name: str, number: int, to: CopyTarget) -> CopyTarget:
        return replace(to, split=Split(number, self._of(name), self._read, self._tools.attempt))

    def _has(self, name: str, number: int, to: CopyTarget) -> bool:
        return any(one.number == number for one in self._kept[to.destination.name].done.get(name, ()))

    def opened(self, opened: OpenedSource) -> None:
        """Write down where this read stands: without that no split of it is ever kept. And read what the log says since
        the reads of earlier attempts: what is wrong there is no destination's, and ends the attempt before it has
        copied much.

        TransientError: what is staged lies behind the source as it is now, or the log does not bring it there.
        """
        assert self._place is not None
        self._now = SplitRead(self._read, opened.proof, opened.position, self._place)
        for one in self._kept.values():
            for read in self._used(one):
                if not opened.position.covers(read.position):
                    self.forget()
                    raise TransientError(
                        f"splits were read at {read.position}, which the source no longer holds: it stands at"
                        f" {opened.position}",
                        hint="the next attempt reads all tables again",
                    )
            try:
                one.area.note_read(self._read, json.dumps(read_to_json(self._now)))
            except SeamlineError as error:
                # If it is away, its load says so.
                name = one.destination.name
                log.warning("the load into %s cannot be resumed if it is interrupted: %s", name, error.message)
        try:
            self._read_log(self._now.position)
        except (Diverged, PositionLost, SchemaConflict) as error:
            self.forget()
            what = f"table {error.table} restarts" if error.table else "what is staged restarts"
            raise TransientError(
                f"{what}, the log does not bring it to one position: {error.message}",
                hint="the next attempt reads all tables again",
                table=error.table,
            ) from error

    def _read_log(self, upto: Position) -> None:
        """Of each earlier read whose splits are kept. Raises also where a kept table cannot take its changes."""
        for one in self._kept.values():
            for name in one.done:
                for since in self._used(one, name):
                    if since.read not in self._changes:
                        self._changes[since.read] = self._log.changes(since, upto)
                    self._batch(one, name, since)

    # ---- behind the read --------------------------------------------------------------------------------------------

    def loads(self, destination: DestinationPlan, copied: Sequence[Copied], tables: Sequence[Table]) -> list[Load]:
        """All tables, at the position of this read."""
        one = self._kept[destination.name]
        rows: dict[str, int] = {}
        for each in copied:
            rows[each.table] = rows.get(each.table, 0) + each.rows
        return [
            Load(
                table,
                one.places[name := table.name].name,
                self._whole(one, name) if name in one.done else rows.get(name, 0),
            )
            for table in tables
        ]

    def _whole(self, one: _Kept, name: str) -> int:
        """Rows of a table of which an earlier attempt has staged some."""
        kind, place = _resuming(one.destination), one.places[name]
        rows = kind.finish_splits(one.destination, place)
        try:
            for read in self._used(one, name):
                self._bring_forward(one, name, read)
                rows = kind.finish_splits(one.destination, place)
        except Diverged as error:
            self.forget()
            raise TransientError(
                f"table {name} restarts, the log does not bring it to one position: {error.message}",
                hint="nothing of it is kept: whoever reads the tables next reads all of them",
                table=name,
            ) from error
        return rows

    def _bring_forward(self, one: _Kept, name: str, since: SplitRead) -> None:
        assert self._now is not None
        batch, dates = self._batch(one, name, since), self._dates(name)
        _resuming(one.destination).bring_forward(
            one.destination,
            one.places[name],
            batch,
            dates=dates,
            since=since,
            to=self._now,
            attempt=self._tools.attempt,
        )
        log.info(
            "table %s in %s: splits that were read at %s are at %s, by %d changes of the log",
            name, one.destination.name, since.position, self._now.position, batch.rows.num_rows if batch else 0,
        )  # fmt: skip

    def _batch(self, one: _Kept, name: str, since: SplitRead) -> ChangeBatch | None:
        """What the log does to the rows of these splits, as this destination holds them; to the others it has happened
        before they were read."""
        changes = self._changes[since.read].get(name)
        if changes is None:
            return None
        if changes.truncate_first:
            raise Diverged("it was emptied in between", table=name)
        held = self._run.plan.held_by(one.destination.name)
        batch = under_name(registry.log_batches(held)(changes), self._target(one.destination, name))
        if (dates := self._dates(name)) is not None:
            batch = of_dates(batch, dates)
        if not self._edges[name]:
            return batch
        ranges = ranges_of(self._edges[name])
        return in_key_ranges(batch, [ranges[done.number] for done in one.done[name] if done.read == since.read])

    @contextmanager
    def held(self, *, without: Collection[str] = ()) -> Iterator[None]:
        """No other attempt of the run takes over what is staged meanwhile, in all destinations but these.
        LoadTakenOver: one has."""
        with ExitStack() as areas:
            for name, one in self._kept.items():
                if name not in without:
                    areas.enter_context(one.area.held())
            yield

    def forget(self) -> None:
        """No later attempt goes on with this one: it is whole, or not to be trusted. Without effect where another one
        has taken it over."""
        is_ours = True
        for one in self._kept.values():
            with suppress(SeamlineError):
                is_ours = one.area.forget() and is_ours
        if is_ours:
            with suppress(SeamlineError):
                self._tools.holds.release_log(self._hold)

    # ---- what it is made of -----------------------------------------------------------------------------------------

    def _used(self, one: _Kept, name: str = "") -> list[SplitRead]:
        """The reads that kept splits stand at, of one table or of all."""
        kept = [done for table, splits in one.done.items() if table == (name or table) for done in splits]
        return [one.reads[read] for read in dict.fromkeys(done.read for done in kept)]

    def _dates(self, name: str) -> Segment | None:
        """The dates whose rows are read; None of a table that is read whole."""
        segment = self._reads[name].segment
        return segment if segment.date_column else None

    def _of(self, name: str) -> int:
        return len(self._edges[name]) + 1

    def _target(self, destination: DestinationPlan, name: str) -> Table:
        return self._run.plan.held_by(destination.name).table(name).target

    def _made_as(self, destination: DestinationPlan, name: str) -> str:
        assert self._place is not None
        planned = self._run.plan.held_by(destination.name).table(name)
        source = self._run.plan.source.name
        return made_as(planned.fingerprint, self._reads[name].segment, source=source, topic_id=self._place.topic_id)


def _is_resumable(plan: SyncPlan) -> bool:
    return plan.source.has_log and all(isinstance(sink_kind(one.kind), ResumesLoads) for one in plan.destinations)


def _resuming(destination: DestinationPlan) -> ResumesLoads:
    return power(sink_kind(destination.kind), ResumesLoads, to="go on with a load")


def _holder(run: Run) -> str:
    return held_for_load(run.run_id) + ", ".join(one.name for one in run.plan.destinations)


def is_interrupted(error: BaseException) -> bool:
    """Whether the next attempt of the run may go on with what is staged: not where trying again cannot help."""
    return isinstance(error, TransientError) or not isinstance(error, SeamlineError)


def is_refuted(error: BaseException) -> bool:
    """Whether a comparison of what is staged has failed, be it in one of several destinations of which all failed."""
    return isinstance(error, SeamlineError) and any(isinstance(one, GateFailed) for one in (error, *error.others))
