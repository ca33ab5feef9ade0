"""Cuts from the log, made in their destinations: `seamline.sync.nightly_cut.LogWay`."""

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import date, datetime

from seamline import registry
from seamline.bulk.log_begin import begins_through_archive
from seamline.domain.calendar import Day
from seamline.domain.changes import TableChanges
from seamline.domain.date_before import DATE_BEFORE, SinceCut, date_before_to_json
from seamline.domain.day_closed import ClosedBy
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.domain.log_keepers import held_for_cut, held_for_cuts
from seamline.domain.log_patch import LOG, TablePatch
from seamline.domain.made_from import (
    BY_LOG,
    LOG_PLACE,
    PROVEN_BY_KEYS,
    EarlierCut,
    LogPlace,
    NotByLog,
    by_log_to_json,
    place_to_json,
)
from seamline.domain.position import Position
from seamline.domain.runs import Json
from seamline.domain.table_places import TablePlace
from seamline.kinds.bulk import LoadArea
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import CarriesCutsOn, ReadsBack
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import Load, Marker, PruningHolds, ReadView, StagedView, TableRead
from seamline.sync.bucket_search import Divided, Sides
from seamline.sync.carried_proof import Carried, is_proven_by_keys, proven_by_keys, require_as_proven
from seamline.sync.clock import SystemClock
from seamline.sync.cut import ended_day, select_by_log
from seamline.sync.from_earlier_cut import PatchOf, dates_in_base, expected_view
from seamline.sync.late_in_log import late_in_log
from seamline.sync.log_cut import (
    MISSED_DAYS,
    CutHistory,
    LogHeld,
    LogToCutOff,
    LogTools,
    find_base,
    needed_from,
    needed_tables,
    read_to_cut_off,
)
from seamline.sync.markers import read_until_marker
from seamline.sync.nightly_cut import CutTools, How
from seamline.sync.snapshot import MARKER_WITHIN_S
from seamline.sync.system_date import SystemDate, system_date_of
from seamline.values.changes import under_name
from seamline.values.dated_changes import of_dates

_log = logging.getLogger(__name__)

# Each cut takes its hold anew.
HOLD_S = MISSED_DAYS * 86_400.0
# As long as a run and the next date of its backfill may take, with a long weekend on which nobody signs between them.
RUN_HOLD_S = 4 * 86_400.0


class LogCuts:
    """`LogWay` of a run. `tools`: of a cut that is read; what both ways have in common is taken from there."""

    def __init__(self, run: Run, tools: CutTools, *, history: CutHistory, holds: PruningHolds) -> None:
        self._run = run
        self._tools = tools
        self._history = history
        self._holds = holds

    def tools(self, destination: DestinationPlan) -> CutTools:
        made = _LogCut(self._run, destination, self._history, self._holds, self._tools)
        return replace(
            self._tools,
            open_read=made.open_read,
            open_staged=made.open_staged,
            # What came late for earlier dates the log says itself (`late_in_log`): the source is not asked.
            date_before=lambda *_: (),
            how=How(LOG, select_by_log, lambda: made.evidence, made.proven),
        )

    def place(self, destinations: Sequence[str]) -> LogPlace:
        plan = self._run.plan
        marker = Marker(f"low-{uuid.uuid4().hex}", "low", {"run": self._run.run_id})
        with closing(registry.log_reader(plan)) as reader:
            start = reader.end_offset()
            reader.assign(start)
            registry.logged_source(plan).commit_marker(marker)
            found = read_until_marker(
                reader, marker_table=plan.source.marker_table, marker_id=marker.id, timeout_s=MARKER_WITHIN_S
            )
            topic_id = reader.topic_id
        begins = registry.log_topics().offsets(plan.source.log_topic)[0]
        held = LogHeld(plan.source.log_topic, topic_id, begins)
        for name in destinations:
            of_cuts = plan.held_by(name).of_cuts
            next_cuts = needed_from(of_cuts, name, history=self._history, held=held)
            hold(self._holds, self._run, name, found.next_offset, next_cuts=next_cuts)
        return LogPlace(plan.source.log_topic, topic_id, found.next_offset, found.position, is_exact=False)


def hold(holds: PruningHolds, run: Run, destination: str, offset: int, *, next_cuts: int | None) -> None:
    """Keep the log from `offset` on for this run's cut, and from `next_cuts` on for those that come (`needed_from`):
    each begins with a cut that is published and proven, and not with what this run will make. Runs of several
    dates hold what each needs. `next_cuts`: None where there is no other cut to begin with than this run's."""
    topic = run.plan.source.log_topic
    lease_s = HOLD_S if next_cuts is None else RUN_HOLD_S
    holds.hold_log(topic, holder=held_for_cut(run.run_id) + destination, offset=offset, lease_s=lease_s)
    if next_cuts is not None:
        holds.hold_log(topic, holder=held_for_cuts(run.sync) + destination, offset=next_cuts, lease_s=HOLD_S)


class _LogCut:
    """One cut of one destination."""

    def __init__(
        self, run: Run, destination: DestinationPlan, history: CutHistory, holds: PruningHolds, tools: CutTools
    ) -> None:
        self._run = run
        self._destination = destination
        self._history = history
        self._holds = holds
        self._tools = tools
        self._kind = sink_kind(destination.kind)
        # By the names of the log, and with what is kept for the next cut.
        self._own = run.plan.held_by(destination.name)
        self._plan = self._own.of_cuts
        self._read: CutFromLog | None = None
        self._late: Sequence[SinceCut] = ()
        # Tables whose base is proven together with what was made of it.
        self._carried: Mapping[str, Carried] = {}
        self._proven: set[str] = set()

    @property
    def evidence(self) -> Json:
        if self._read is None:
            return {}
        log = self._read.log
        return {
            BY_LOG: by_log_to_json(log.made),
            LOG_PLACE: place_to_json(log.place),
            DATE_BEFORE: date_before_to_json(self._late),
            PROVEN_BY_KEYS: sorted(self._proven),
        }

    @contextmanager
    def open_read(self, _: Sequence[TableRead]) -> "Iterator[CutFromLog]":
        """Reads the log. What was staged is dropped again if the caller fails."""
        if not (isinstance(self._kind, CarriesCutsOn) and isinstance(self._kind, ReadsBack)):
            raise NotByLog(f"a destination of kind {self._kind.name} cannot carry a cut on")
        business_date = self._date()
        day = ended_day(self._own, business_date, at=self._tools.clock(), clock="this machine's clock")
        base = self._base(business_date)
        next_cuts = needed_from(self._plan, self._destination.name, history=self._history, held=self._held())
        hold(self._holds, self._run, self._destination.name, base.place.offset, next_cuts=next_cuts)
        log = read_to_cut_off(self._own, base, day.end, self._log_tools(self._system_date(self._kind, base)))
        with ExitStack() as stack:
            view = stack.enter_context(closing(self._base_view(self._kind, base)))
            patches = _once(registry.log_patches(self._own))
            self._proven.clear()
            self._carried = self._proven_later(base, log, view, patches)
            for name in needed_tables(self._plan):
                if name not in self._carried:
                    require_as_proven(view, self._plan.table(name).target, base)
            self._late = self._late_rows(base, log, patches)
            expected = expected_view(self._plan, business_date, view, log.changes, patches, log.position)
            area = self._kind.load_area(self._destination, run_id=self._run.run_id)
            self._read = CutFromLog(self._own, self._kind, area, base, log, expected, day, self._require_base)
            try:
                yield self._read
            except BaseException:
                with suppress(SeamlineError):
                    area.drop()
                raise

    @contextmanager
    def open_staged(
        self, destination: DestinationPlan, loads: Sequence[Load], count: int
    ) -> Iterator[Sequence[StagedView]]:
        if self._read is None:
            raise InvariantViolated("what is staged is compared while the cut before it is open")
        views = power(self._kind, ReadsBack, to="be read back for a comparison").open_staged(
            self._plan.at_destination(destination.name), destination, loads, count, position=self._read.position
        )
        try:
            yield views
        finally:
            for view in views:
                view.close()

    def proven(self, sides: Sides) -> Divided | None:
        """The first pass of a table that its proof by keys covers. NotByLog: its base is not what was compared."""
        carried = self._carried.get(sides.table.name)
        if carried is None:
            return None
        found = proven_by_keys(sides, carried)
        if found is None:
            sides.check()
            self._require_base(sides.table.name)
        else:
            self._proven.add(sides.table.name)
        return found

    def _proven_later(
        self, base: EarlierCut, log: LogToCutOff, view: ReadView, patches: PatchOf
    ) -> Mapping[str, Carried]:
        """The tables whose rows, once they are staged, prove what they were made of as well."""
        found = {}
        for table in self._plan.tables:
            if table.business_date is None and table.name in base.digests:
                changes = log.changes.get(table.name)
                patch = TablePatch() if changes is None else patches(changes)
                carried = Carried(base.digests[table.name], patch, view)
                if is_proven_by_keys(table.target, carried):
                    found[table.name] = carried
        return found

    def _require_base(self, table: str) -> None:
        """Now, where the proof was to come later and does not."""
        if (carried := self._carried.get(table)) is not None and self._read is not None:
            require_as_proven(carried.base, self._plan.table(table).target, self._read.base)

    def _date(self) -> date:
        if self._run.business_date is None:
            raise InvariantViolated(f"run {self._run.run_id} has no business date", sync=self._run.sync)
        return self._run.business_date

    def _base(self, business_date: date) -> EarlierCut:
        held = self._held()
        try:
            base = self._found(business_date, held)
        except NotByLog as exc:
            if exc.is_first or self._own.source.archive is None:
                raise
            base = self._found(business_date, self._with_archive(held))
        # A log of PostgreSQL says nothing of this, and a statement of MariaDB may stand behind the cut-off.
        then = self._history.run(base.run_id).plan
        if altered := registry.source(then).altered([table.definition for table in then.tables]):
            raise NotByLog(f"tables were altered since the cut of {base.business_date}: {'; '.join(altered)}")
        return base

    def _held(self) -> LogHeld:
        topic, topics = self._own.source.log_topic, registry.log_topics()
        return LogHeld(topic, topics.topic_id(topic), topics.offsets(topic)[0])

    def _found(self, business_date: date, held: LogHeld) -> EarlierCut:
        return find_base(self._plan, self._destination.name, business_date, history=self._history, held=held)

    def _with_archive(self, held: LogHeld) -> LogHeld:
        """From where on a reader comes through the archive to the log."""
        return replace(held, begins=begins_through_archive(self._own.source, held.topic_id, held.begins))

    def _late_rows(self, base: EarlierCut, log: LogToCutOff, patches: PatchOf) -> Sequence[SinceCut]:
        name = self._destination.name
        cuts = [
            cut
            for cut in self._history.cuts(self._own.sync)
            if cut.destination == name and cut.business_date <= base.business_date
        ]
        images = registry.log_images(self._run.plan, name)
        return late_in_log(self._plan, log.changes, cuts, until=log.position, patch_of=patches, images=images)

    def _base_view(self, kind: CarriesCutsOn, base: EarlierCut) -> ReadView:
        published = kind.published_tables(self._destination, self._own.sync, base.business_date, base.version)
        needed = set(needed_tables(self._plan))
        if lacking := sorted(needed - {one.table for one in published}):
            of = f"the cut of {base.business_date}, version {base.version}"
            raise NotByLog(f"{self._destination.name} no longer has {', '.join(lacking)} of {of}")
        tables = [one for one in published if one.table in needed]
        return registry.published_view(self._plan, self._destination, tables, position=base.position)

    def _system_date(self, kind: CarriesCutsOn, base: EarlierCut) -> SystemDate | None:
        """By which the date ends; None where it ends at a time."""
        closed_when = self._own.nightly.closed_when if self._own.nightly else ()
        wanted = next((one for one in closed_when if one.by is ClosedBy.SYSTEM_DATE), None)
        if wanted is None:
            return None
        source = self._own.source
        name = source.places.name(*TablePlace.declared(wanted.what, source.namespace))
        table = self._own.table(name).definition
        of = f"the cut of {base.business_date}, version {base.version},"
        patches = registry.log_patches(self._own)
        with closing(self._base_view(kind, base)) as view:
            return system_date_of(view, table, wanted.column, self._date(), patch_of=patches, of=of)

    def _log_tools(self, system_date: SystemDate | None) -> LogTools:
        def commit_marker() -> str:
            marker = Marker(uuid.uuid4().hex, "barrier", {"run": self._run.run_id})
            registry.logged_source(self._own).commit_marker(marker)
            return marker.id

        return LogTools(lambda: registry.log_reader(self._own), commit_marker, SystemClock(), system_date=system_date)


def _once(patch_of: PatchOf) -> PatchOf:
    """Decodes the changes of each table once: its rows, those of later dates and late ones are all found in them."""
    known: dict[str, TablePatch] = {}

    def of(changes: TableChanges) -> TablePatch:
        if changes.table not in known:
            known[changes.table] = patch_of(changes)
        return known[changes.table]

    return of


def _raise_if_not_by_log(require_base: Callable[[str], None], table: str) -> None:
    """An error of the question itself does not hide what it was asked for."""
    try:
        require_base(table)
    except NotByLog:
        raise
    except SeamlineError as exc:
        _log.warning("whether the base still holds %s as it was compared, is not known: %s", table, exc)


@dataclass(frozen=True, slots=True)
class CutFromLog:
    """`sync.snapshot.ReadAtOnePosition` of one destination: what is read is its own cut before this one, and the log.
    `own`: the sync's plan as the destination holds it; `day`: of the cut. `require_base`: NotByLog where a table of the
    base is not what was compared, as far as that was not asked yet."""

    own: SyncPlan
    kind: CarriesCutsOn
    area: LoadArea
    base: EarlierCut
    log: LogToCutOff
    expected: ReadView
    day: Day
    require_base: Callable[[str], None]

    @property
    def position(self) -> Position:
        return self.log.position

    @property
    def position_time(self) -> datetime:
        """The cut-off, or when the system date has moved on: the cut is the state of that moment."""
        made = self.log.made
        return max(self.day.end, datetime.fromisoformat(made.ended_at)) if made.moved_on else self.day.end

    def views_for(self, destination: DestinationPlan) -> Sequence[ReadView]:  # noqa: ARG002
        return [self.expected]

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        plan, base = self.own.of_cuts, self.base
        published = self.kind.published_tables(destination, plan.sync, base.business_date, base.version)
        by_name = {one.table: one for one in published}
        dates = dates_in_base(plan, self.day.business_date)
        places = self.area.create([table.target for table in plan.tables])
        batches = registry.log_batches(self.own)
        loads = []
        for table in plan.tables:
            changes = self.log.changes.get(table.ahead_of or table.name)
            batch = None if changes is None else under_name(batches(changes), table.target)
            mine, place = dates.get(table.name), places[table.name]
            batch = of_dates(batch, mine) if batch and mine else batch
            origin = by_name[mine.table if mine else table.name]
            try:
                rows = self.kind.carry_on(destination, place, origin, batch, dates=mine)
            except SeamlineError:
                # Of a base that somebody has changed it says the wrong thing: a key twice is no fault of the source.
                _raise_if_not_by_log(self.require_base, table.name)
                raise
            loads.append(Load(table.target, place.name, rows))
        return loads

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:  # noqa: ARG002
        found = self.expected.digests(segment, run_key=segment.table)
        return sum(found.values(), SegmentDigest())
