"""Tables that another tool carries, compared between two views of two places (mode "separate", ADR 63).

Nothing of ours can hold that tool, so both sides are never brought to one position. What is said is what is known: a
MATCH is between the two views that are named with it; a difference is read again once the tool has had its time, and
`sync.in_flight` says what that makes of it.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from seamline.domain.catalogue import Table
from seamline.domain.compared_tables import PairedTable, paired, unlike
from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.separate import READINGS, SEPARATE, Reading, readings_to_json
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict, of_guaranteed
from seamline.plan.model import Run, SyncPlan
from seamline.ports import ReadView
from seamline.ports.separate import OpenedSide, SeparateSide
from seamline.sync.bucket_search import Limits
from seamline.sync.budget import Spending, evidence_of_budget, limits_of, within
from seamline.sync.clock import Clock, SystemClock
from seamline.sync.comparison import DIGEST, Work, compare_tables
from seamline.sync.in_flight import classified, may_be_in_flight, not_read_again, read_again
from seamline.sync.reconcile import inconclusive
from seamline.sync.self_test import self_tested

log = logging.getLogger(__name__)

# As for views of a barrier: both databases keep old rows for them.
_VIEWS_MAX_AGE_S = 1_800.0


def compare_separately(
    run: Run,
    destination: str,
    *,
    source: SeparateSide,
    other: SeparateSide,
    views: int,
    clock: Clock | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    limits: Limits | None = None,
    spending: Callable[[], Spending | None] | None = None,
    begin: Callable[[], None] = lambda: None,
) -> Reconciliation:
    """Compare the tables of a run's plan, which the source was surveyed for, with those of one destination.

    Always gives a reconciliation. What differs is read again after `in_flight_max_s` at the earliest, counted from the
    first reading of the source; where nothing differs nobody waits.
    `spending` begins the budget of the first reading. A repeat reads both sides at other places. `begin` waits until
    the source may be read.
    """
    clock = clock or SystemClock()
    return _Separately(run, destination, source, other, views, clock, now, limits, spending, begin).compare()


@dataclass(slots=True)
class _Separately:
    run: Run
    destination: str
    source: SeparateSide
    other: SeparateSide
    views: int
    clock: Clock
    now: Callable[[], datetime]
    limits: Limits | None
    spending: Callable[[], Spending | None] | None
    begin: Callable[[], None]
    source_read: float = 0.0
    spent: Spending | None = None

    @property
    def plan(self) -> SyncPlan:
        return self.run.plan

    def compare(self) -> Reconciliation:
        started = self.now()
        blank = Reconciliation(
            run_id=self.run.run_id,
            sync=self.plan.sync,
            destination=self.destination,
            scope=Scope.LIVE,
            business_date=self.run.business_date,
            position=None,
            position_time=None,
            mode=SEPARATE,
            verdict=Verdict.NOT_RUN,
            tables=(),
            started_at=started,
            ended_at=started,
            evidence={"digest": DIGEST, "config_hash": self.plan.config_hash},
        )
        try:
            verdicts, evidence = self._compared()
        except SeamlineError as exc:
            verdicts = tuple(inconclusive(table.name, exc.message) for table in self.plan.tables)
            evidence = {}
        tables = (*verdicts, *(table.verdict for table in self.plan.parked))
        evidence = {**blank.evidence, **evidence}
        return replace(blank, verdict=of_guaranteed(tables), tables=tables, ended_at=self.now(), evidence=evidence)

    def _compared(self) -> tuple[tuple[TableVerdict, ...], dict[str, object]]:
        self.begin()
        pairs, unlike_tables = self._pairs()
        with ExitStack() as opened:
            first, mine, theirs = self._open_first(pairs, opened)
            work = _work(pairs, first)
            check = self._age_check()
            totals = self.plan.reconcile.control_totals
            self.spent = self.spending() if self.spending else None
            self.limits = limits_of(self.spent, self.limits)
            found = compare_tables(
                work,
                source=mine.views,
                destination=theirs.views,
                totals=totals,
                check=within(self.spent, check),
                limits=self.limits,
            )
            found, evidence = self_tested(found, work, source=mine.views[0], destination=theirs.views[0], check=check)
        # Both databases have let go of their old rows while the other tool gets its time.
        found, second = self._judged(pairs, found)
        readings = readings_to_json(first, second, in_flight_max_s=self._in_flight_max_s)
        by_name = {one.table: one for one in (*found, *unlike_tables)}
        in_order = tuple(by_name[table.name] for table in self.plan.tables)
        return in_order, {**evidence, **evidence_of_budget(self.spent), READINGS: readings}

    @property
    def _in_flight_max_s(self) -> float:
        return self.plan.reconcile_only.in_flight_max_s if self.plan.reconcile_only else 0.0

    def _pairs(self) -> tuple[list[PairedTable], list[TableVerdict]]:
        """The tables that can be compared, and the verdicts of the others."""
        planned = [table.definition for table in self.plan.tables]
        survey = self.other.survey([table.name for table in planned])
        there = {table.name: table for table in survey.tables}
        pairs: list[PairedTable] = []
        verdicts: list[TableVerdict] = []
        for table in planned:
            why = [problem.what for problem in survey.problems if problem.table == table.name]
            if not why and table.name in there:
                why = unlike(table, there[table.name])
            if why or table.name not in there:
                verdicts.append(_another_schema(table, "; ".join(why) or "the destination was not asked for it"))
            else:
                pairs.append(paired(table, there[table.name]))
        return pairs, verdicts

    def _open_first(self, pairs: Sequence[PairedTable], opened: ExitStack) -> tuple[Reading, OpenedSide, OpenedSide]:
        """The source first: the destination has had at least as much time as both openings lie apart."""
        mine = _closing(opened, self.source.open([one.source for one in pairs], self.views))
        self.source_read = self.clock.now()
        theirs = _closing(opened, self.other.open([one.destination for one in pairs], self.views))
        return Reading(mine.stand, theirs.stand), mine, theirs

    def _judged(
        self, pairs: Sequence[PairedTable], found: Sequence[TableVerdict]
    ) -> tuple[tuple[TableVerdict, ...], Reading | None]:
        differ = {one.table for one in found if may_be_in_flight(one)}
        if not differ:
            return tuple(found), None
        rest_s = self.source_read + self._in_flight_max_s - self.clock.now()
        log.info("%s: %s differ and are read again in %.1f s", self.plan.sync, ", ".join(sorted(differ)), rest_s)
        if rest_s > 0:
            self.clock.sleep(rest_s)
        looked_at = [one for one in pairs if one.common.name in differ]
        try:
            with ExitStack() as opened:
                # The destination first: a source that holds the same before and after it has held it all the time.
                theirs = _closing(opened, self.other.open([one.destination for one in looked_at], 1))
                mine = _closing(opened, self.source.open([one.source for one in looked_at], 1))
                second = Reading(mine.stand, theirs.stand)
                again = {
                    one.table: self._again(one, work, mine.views[0], theirs.views[0])
                    for one, work in _with_work(found, _work(looked_at, second))
                }
        except SeamlineError as exc:
            return tuple(not_read_again(one, exc.message) if one.table in differ else one for one in found), None
        return tuple(again.get(one.table, one) for one in found), second

    def _again(self, found: TableVerdict, work: Work, mine: ReadView, theirs: ReadView) -> TableVerdict:
        def compare() -> TableVerdict:
            # Its time is over by now, as it has to be; its pauses hold.
            rest = self.spent.rest if self.spent else lambda: None
            (verdict,) = compare_tables([work], source=[mine], destination=[theirs], check=rest, limits=self.limits)
            return verdict

        try:
            return classified(found, read_again(work.table, found, mine, theirs, compare=compare))
        except SeamlineError as exc:
            return not_read_again(found, exc.message)

    def _age_check(self) -> Callable[[], None]:
        def check() -> None:
            if (age := self.clock.now() - self.source_read) > _VIEWS_MAX_AGE_S:
                raise TransientError(
                    f"the read views are {age:.0f} s old, more than {_VIEWS_MAX_AGE_S:.0f} s: both databases keep old"
                    " rows for them",
                    hint="compare fewer tables at a time, or at a quieter hour",
                )

        return check


def _closing(opened: ExitStack, side: OpenedSide) -> OpenedSide:
    for view in side.views:
        opened.callback(view.close)
    return side


def _work(pairs: Sequence[PairedTable], reading: Reading) -> list[Work]:
    return [
        Work(one.common, Segment(one.common.name), Segment(one.common.name), apart=reading.in_words) for one in pairs
    ]


def _with_work(found: Sequence[TableVerdict], work: Sequence[Work]) -> list[tuple[TableVerdict, Work]]:
    verdicts = {one.table: one for one in found}
    return [(verdicts[one.table.name], one) for one in work]


def _another_schema(table: Table, why: str) -> TableVerdict:
    broken = Break(table.name, BreakType.SCHEMA, "{}", {"": why})
    return TableVerdict(table.name, Verdict.BREAK, why, breaks=(broken,), breaks_total=1)
