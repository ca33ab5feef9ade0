"""Cuts that begin with the newest one and read what has a greater key: `seamline.sync.nightly_cut.LogWay` (ADR 82).

No bound says which keys no open transaction can still commit: a sequence hands numbers out before the commit, in
blocks to sessions, and clocks are set. So nothing is taken on trust: the whole table is compared with the source at P.
A row that was committed late, changed or deleted below the bound differs there, is counted, and the tables are read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime

from seamline import registry
from seamline.bulk.log_cut import LogCuts
from seamline.domain.catalogue import Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment, SegmentDigest
from seamline.domain.made_from import NOT_TAKEN_OVER, TAKEN_OVER, MadeFrom, NotByLog, TakenOver, taken_over_from_json
from seamline.domain.position import Position
from seamline.domain.runs import Cut, Json, Reconciliation
from seamline.domain.verdict import BreakType, TableVerdict, Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CarriesCutsOn
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import Load, PruningHolds, ReadView, TableRead
from seamline.sync.bucket_search import is_ranged
from seamline.sync.log_cut import CutHistory
from seamline.sync.nightly_cut import CutTools, How, LogWay
from seamline.sync.snapshot import ReadAtOnePosition

_WORDS = {BreakType.MISSING: "came late", BreakType.VALUE: "changed", BreakType.UNEXPECTED: "are gone"}


def way_of(
    run: Run, tools: CutTools, read: Callable[[Run], CutTools], *, history: CutHistory, holds: PruningHolds
) -> LogWay | None:
    """How the run's plan begins with an earlier cut; None where it does not. `read`: the tools of a read."""
    made_from = run.plan.nightly.made_from if run.plan.nightly else MadeFrom.READ
    if made_from is MadeFrom.INCREMENTAL:
        cuts = CutsSince(run, read, history)
        return LogWay(cuts.tools, read, None, judge=require_equal, why=NOT_TAKEN_OVER)
    if not made_from.uses_log:
        return None
    by_log = LogCuts(run, tools, history=history, holds=holds)
    return LogWay(by_log.tools, read, by_log.place)


def require_equal(found: Sequence[Reconciliation]) -> None:
    """NotByLog: rows of an earlier cut are not those of the source any more; how many of them, and how they differ."""
    for one in found:
        begun = {made.table for made in taken_over_from_json(one.evidence)}
        if wrong := [table for table in one.tables if table.table in begun and table.verdict is not Verdict.MATCH]:
            raise NotByLog("; ".join(map(_how_it_differs, wrong)), table=wrong[0].table)


def _how_it_differs(table: TableVerdict) -> str:
    counts = Counter(one.type for one in table.breaks)
    listed = ", ".join(f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind])
    return f"rows of {table.table} below the greatest key of the cut before: {listed or table.reason or table.verdict}"


@dataclass(frozen=True, slots=True)
class _EarlierRows:
    """A table of an earlier cut; `through`: its greatest key."""

    cut: Cut
    published: PublishedTable
    through: int


class CutsSince:
    def __init__(self, run: Run, read: Callable[[Run], CutTools], history: CutHistory) -> None:
        self._run = run
        self._read = read
        self._history = history

    def tools(self, destination: DestinationPlan) -> CutTools:
        tools = self._read(replace(self._run, plan=self._run.plan.into([destination.name])))
        made: list[TakenOver] = []

        @contextmanager
        def open_read(reads: Sequence[TableRead]) -> Iterator[ReadAtOnePosition]:
            made.clear()
            kind, bases = self._bases(destination, [read.table for read in reads if not read.segment.date_column])
            with tools.open_read([_above(read, bases.get(read.table.name)) for read in reads]) as opened:
                yield ReadSinceCut(opened, kind, bases, made)

        def evidence() -> Json:
            return {TAKEN_OVER: [asdict(one) for one in made]}

        return replace(tools, open_read=open_read, how=How(tools.how.mode, tools.how.select, evidence))

    def _bases(
        self, destination: DestinationPlan, tables: Sequence[Table]
    ) -> tuple[CarriesCutsOn, Mapping[str, _EarlierRows]]:
        """NotByLog: no table can begin with an earlier cut."""
        kind = sink_kind(destination.kind)
        if not isinstance(kind, CarriesCutsOn):
            raise NotByLog(f"a destination of kind {kind.name} cannot carry a cut on")
        own = self._run.plan.held_by(destination.name)
        wanted = [one for one in tables if is_ranged(one) and own.table(one.name).transform is None]
        if not wanted:
            raise NotByLog("no table that is read whole has one whole number as its key")
        cut = self._newest(destination.name)
        published = {
            one.table: one for one in kind.published_tables(destination, own.sync, cut.business_date, cut.version)
        }
        then = self._history.run(cut.run_id).plan.held_by(destination.name)
        same = [one.name for one in wanted if one.name in published and _is_same(own, then, one.name)]
        if not same:
            raise NotByLog(f"the cut of {cut.business_date} has none of these tables as they are now")
        with closing(
            registry.published_view(own, destination, [published[name] for name in same], position=cut.position)
        ) as view:
            spans = {name: view.key_span(name) for name in same}
        return kind, {name: _EarlierRows(cut, published[name], span[1]) for name, span in spans.items() if span}

    def _newest(self, destination: str) -> Cut:
        for cut in self._history.cuts(self._run.sync):
            if cut.destination == destination and cut.verdict is Verdict.MATCH:
                return cut
        raise NotByLog("no published cut is a MATCH that this one could begin with")


def _is_same(now: SyncPlan, then: SyncPlan, name: str) -> bool:
    known = {table.name: table.fingerprint for table in then.tables}
    return known.get(name) == now.table(name).fingerprint


def _above(read: TableRead, base: _EarlierRows | None) -> TableRead:
    return read if base is None else replace(read, segment=replace(read.segment, key_from=base.through + 1))


@dataclass(frozen=True, slots=True)
class ReadSinceCut:
    """`sync.snapshot.ReadAtOnePosition` of one destination. `made`: what became of each table, for the evidence."""

    opened: ReadAtOnePosition
    kind: CarriesCutsOn
    bases: Mapping[str, _EarlierRows]
    made: list[TakenOver] = field(default_factory=list)

    @property
    def position(self) -> Position:
        return self.opened.position

    @property
    def position_time(self) -> datetime:
        return self.opened.position_time

    def views_for(self, destination: DestinationPlan) -> Sequence[ReadView]:
        return self.opened.views_for(destination)

    def stage(self, destination: DestinationPlan) -> Sequence[Load]:
        return [self._whole(destination, load) for load in self.opened.stage(destination)]

    def _whole(self, destination: DestinationPlan, load: Load) -> Load:
        base = self.bases.get(load.table.name)
        if base is None:
            return load
        kept = self.kind.take_over(destination, load, base.published, through=base.through)
        day, version = base.cut.business_date.isoformat(), base.cut.version
        self.made.append(TakenOver(load.table.name, day, version, base.through, kept, load.rows))
        return replace(load, rows=load.rows + kept)

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        return self.opened.digest(segment, destination)
