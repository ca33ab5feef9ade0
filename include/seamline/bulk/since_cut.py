"""Cuts that begin with the newest one and read what is behind it: `seamline.sync.nightly_cut.LogWay` (ADR 82).

Behind it are the rows with a greater key, where the key is one whole number; of a key that only begins with one those
from its greatest value on; of a table with a cursor those from its newest time on: rows of one time, or of one number,
may be in two cuts.

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
    """NotByLog: rows of an earlier cut are not those of the source any more; how many of them, and how they differ. A
    comparison that was not made shows nothing of the kind, and stays the result."""
    for one in found:
        begun = {made.table for made in taken_over_from_json(one.evidence)}
        if wrong := [table for table in one.tables if table.table in begun and table.verdict is Verdict.BREAK]:
            raise NotByLog("; ".join(map(_how_it_differs, wrong)), table=wrong[0].table)


def _how_it_differs(table: TableVerdict) -> str:
    counts = Counter(one.type for one in table.breaks)
    listed = ", ".join(f"{counts[kind]} {word}" for kind, word in _WORDS.items() if counts[kind])
    return f"rows of {table.table} that are those of the cut before: {listed or table.reason or table.verdict}"


@dataclass(frozen=True, slots=True)
class _EarlierRows:
    """A table of an earlier cut. `read`: the part of the source's table that is behind it; `column` and `above` say
    that as `TakenOver` does."""

    cut: Cut
    published: PublishedTable
    read: Segment
    above: int | str
    column: str = ""


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
        cursors = dict(own.nightly.cursors) if own.nightly else {}
        wanted = [
            one
            for one in tables
            if (one.name in cursors or one.begins_with_a_number) and own.table(one.name).transform is None
        ]
        if not wanted:
            raise NotByLog("no table that is read whole has a cursor, or a key that begins with a whole number")
        cut = self._newest(destination.name)
        published = {
            one.table: one for one in kind.published_tables(destination, own.sync, cut.business_date, cut.version)
        }
        then = self._history.run(cut.run_id).plan.held_by(destination.name)
        same = [one for one in wanted if one.name in published and _is_same(own, then, one.name)]
        if not same:
            raise NotByLog(f"the cut of {cut.business_date} has none of these tables as they are now")
        places = [published[one.name] for one in same]
        with closing(registry.published_view(own, destination, places, position=cut.position)) as view:
            found = {
                table.name: _by_number(cut, place, table, view.key_span(table.name))
                for table, place in zip(same, places, strict=True)
                if table.name not in cursors
            }
        for table, place in zip(same, places, strict=True):
            if (column := cursors.get(table.name)) is not None:
                newest = kind.newest_in(destination, place, table.column(column))
                found[table.name] = _by_time(cut, place, newest, column)
        return kind, {name: one for name, one in found.items() if one}

    def _newest(self, destination: str) -> Cut:
        for cut in self._history.cuts(self._run.sync):
            if cut.destination == destination and cut.verdict is Verdict.MATCH:
                return cut
        raise NotByLog("no published cut is a MATCH that this one could begin with")


def _is_same(now: SyncPlan, then: SyncPlan, name: str) -> bool:
    known = {table.name: table.fingerprint for table in then.tables}
    return known.get(name) == now.table(name).fingerprint


def _by_number(cut: Cut, place: PublishedTable, table: Table, span: tuple[int, int] | None) -> _EarlierRows | None:
    if span is None:
        return None
    if is_ranged(table):
        return _EarlierRows(cut, place, Segment(table.name, key_from=span[1] + 1), span[1])
    # Of the greatest number more rows may come, with other values behind it in the key.
    return _EarlierRows(cut, place, Segment(table.name, key_from=span[1]), span[1], table.key[0])


def _by_time(cut: Cut, place: PublishedTable, newest: str, column: str) -> _EarlierRows | None:
    if not newest:
        return None
    return _EarlierRows(cut, place, Segment(place.table, column, newest), newest, column)


def _above(read: TableRead, base: _EarlierRows | None) -> TableRead:
    return read if base is None else replace(read, segment=base.read)


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
        kept = self.kind.take_over(destination, load, base.published, read=base.read)
        day, version = base.cut.business_date.isoformat(), base.cut.version
        self.made.append(TakenOver(load.table.name, day, version, base.above, kept, load.rows, base.column))
        return replace(load, rows=load.rows + kept)

    def digest(self, segment: Segment, destination: DestinationPlan) -> SegmentDigest:
        return self.opened.digest(segment, destination)
