"""All tables of a sync compared at one position, as one reconciliation. Tables share the views; each view serves one
table at a time."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from seamline.domain.canonical import inexact_columns
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused, SeamlineError, TransientError
from seamline.domain.level import WRITTEN_UNDER
from seamline.domain.made_from import NotByLog
from seamline.domain.row_transform import transforms_evidence
from seamline.domain.runs import Reconciliation, Scope
from seamline.domain.verdict import TableVerdict, Verdict, of_guaranteed
from seamline.plan.checks import ControlTotalPlan
from seamline.plan.model import Run, SyncPlan
from seamline.ports import ReadView, SaysGuarantee, StagedView
from seamline.sync.barrier import Aligned, Aligns, NotComparable, StreamEnded
from seamline.sync.bucket_search import (
    WHOLE,
    Digests,
    Divided,
    Limits,
    Part,
    Sides,
    bucket_count,
    first_pass,
    joined,
    parts_of,
    row_counts,
)
from seamline.sync.budget import BudgetSpent, Spending, evidence_of_budget, limits_of, within
from seamline.sync.reconcile import compare_table, inconclusive, new_run_key, not_run
from seamline.sync.repeated import Reading, Repeated, is_read_by_ranges
from seamline.sync.repetition import NEEDS_A_PERSON, Tried, evidence_of
from seamline.sync.self_test import self_tested
from seamline.sync.third_witness import sum_of

DIGEST = "cdg1"
# Names in a reconciliation's evidence.
FINDINGS_THROUGH, FINDINGS_KEPT_AT = "findings_through", "findings_kept_at"


@dataclass(frozen=True, slots=True)
class Work:
    """One table to compare, and the part of it on either side. `apart`: as of `Sides`. `reading`: of a table that is
    read bucket by bucket, which both views must hold whole. `proven`: the first pass where another proof has shown that
    both sides are equal; None where it has not, and both sides are asked. NotByLog from it is no verdict, and ends the
    comparison of all tables; any other SeamlineError is judged as one of a side."""

    table: Table
    source_segment: Segment
    destination_segment: Segment
    findings: tuple[Finding, ...] = ()
    apart: str = ""
    reading: Reading | None = None
    proven: "Callable[[Sides], Divided | None] | None" = None


@dataclass(frozen=True, slots=True)
class StreamFindings:
    """Findings of the stream that were not reported yet; `reported`: up to which number they go."""

    found: tuple[Finding, ...] = ()
    reported: FindingsReported = FindingsReported()

    def of(self, table: str) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.found if finding.table == table)


def compare_tables(
    work: Sequence[Work],
    *,
    source: Sequence[ReadView],
    destination: Sequence[ReadView],
    totals: Sequence[ControlTotalPlan] = (),
    check: Callable[[], None] = lambda: None,
    limits: Limits | None = None,
    run_key: str = "",
) -> tuple[TableVerdict, ...]:
    """Verdicts in the order of `work`, as many tables at once as both sides have views. One key for all, a random one
    where none is given."""
    return _Comparison(work, source, destination, totals, check, limits or Limits(), run_key).run()


def with_whole_digests(
    verdicts: Sequence[TableVerdict], work: Sequence[Work], staged: StagedView
) -> tuple[TableVerdict, ...]:
    """The verdicts of `work`, those of tables with inexact columns with the digest of all columns.

    Publishing looks at the staged rows once more, maybe hours later, and no other digest has these columns. `staged`
    sees the rows that were compared. A SeamlineError is not judged: without this answer nothing may be published.
    """
    return tuple(_with_whole_digest(one, item.table, staged) for one, item in zip(verdicts, work, strict=True))


def _with_whole_digest(verdict: TableVerdict, table: Table, staged: StagedView) -> TableVerdict:
    keyed = verdict.digest
    if keyed is None or not inexact_columns(table):
        return verdict
    whole = staged.whole_digest(table.name, run_key=keyed.run_key)
    if whole.rows != keyed.digest.rows or not whole.is_complete:
        raise TransientError(
            f"{keyed.digest.rows} staged rows were compared, and {whole.hashed} of {whole.rows} have a hash now: the"
            " view is not steady",
            table=table.name,
        )
    return replace(verdict, digest=replace(keyed, whole=whole))


class _Comparison:
    """Tables over a pool of pairs of views. The first pass of a large table is divided over all of them."""

    def __init__(
        self,
        work: Sequence[Work],
        source: Sequence[ReadView],
        destination: Sequence[ReadView],
        totals: Sequence[ControlTotalPlan],
        check: Callable[[], None],
        limits: Limits,
        run_key: str,
    ) -> None:
        self._work = work
        self._totals = totals
        self._check = check
        self._limits = limits
        self._run_key = run_key or new_run_key()
        self._views = min(len(source), len(destination))
        self._pairs: SimpleQueue[tuple[ReadView, ReadView]] = SimpleQueue()
        for pair in zip(source, destination, strict=False):
            self._pairs.put(pair)

    def run(self) -> tuple[TableVerdict, ...]:
        # The largest first: a large table that starts last would run alone at the end.
        order = sorted(self._work, key=lambda item: -item.table.rows_estimate)
        parts = {item.table.name: self._parts(item) for item in order}
        with ThreadPoolExecutor(max_workers=self._views) as pool:
            try:
                verdicts = self._begun(pool, order, parts)
                ended, _ = wait(verdicts.values(), return_when=FIRST_EXCEPTION)
                for one in ended:
                    one.result()
                return tuple(verdicts[item.table.name].result() for item in self._work)
            except BaseException:
                # Nobody asks for the verdicts of the others: those that are asked for now are waited for.
                pool.shutdown(wait=True, cancel_futures=True)
                raise

    def _begun(
        self, pool: ThreadPoolExecutor, order: Sequence[Work], parts: Mapping[str, list[Part]]
    ) -> dict[str, Future[TableVerdict]]:
        """All passes come before the verdicts that wait for them."""
        passes: dict[str, list[Future[Digests]]] = {}
        counts: dict[str, Future[tuple[int, int]]] = {}
        verdicts: dict[str, Future[TableVerdict]] = {}
        for item in order:
            name = item.table.name
            if item.reading is not None and is_read_by_ranges(item.table, item.reading):
                if item.reading.wanted is None:
                    counts[name] = pool.submit(self._count, item)
                passes[name] = [pool.submit(self._pass, item, part) for part in parts[name]]
            elif len(parts[name]) == 1:
                verdicts[name] = pool.submit(self._judge, item)
            else:
                counts[name] = pool.submit(self._count, item)
                passes[name] = [pool.submit(self._pass, item, part) for part in parts[name]]
        for item in order:
            name = item.table.name
            if is_read_by_ranges(item.table, item.reading):
                verdicts[name] = pool.submit(self._judge_ranges, item, passes[name], counts.get(name))
            elif name in passes:
                verdicts[name] = pool.submit(self._judge, item, _first_of(passes[name], counts[name]))
        return verdicts

    def _judge(self, item: Work, first: Divided | None = None) -> TableVerdict:
        with self._sides(item) as sides:
            if item.reading is not None:
                first = self._kept_pass(sides, item.reading, first)
            elif item.proven is not None and first is None:
                try:
                    first = item.proven(sides)
                except NotByLog:
                    raise
                except SeamlineError as exc:
                    # What the proof was to show stays unknown, whatever both sides would answer now.
                    sides = replace(sides, check=_raising(exc))
            return compare_table(sides, totals=self._totals, findings=item.findings, limits=self._limits, first=first)

    def _kept_pass(self, sides: Sides, reading: Reading, first: Divided | None) -> Divided | None:
        """A first pass whose answers are kept; None where it fails: then it is asked again, and the error judged."""
        count = bucket_count(sides.table.rows_estimate, self._limits)
        try:
            digests = first.digests if first else first_pass(sides, self._limits)
        except SeamlineError:
            return None
        reading.take(digests, count)
        return first or Divided(digests, (sum_of(digests[0]).rows, sum_of(digests[1]).rows))

    def _judge_ranges(
        self, item: Work, passes: Sequence[Future[Digests]], count: Future[tuple[int, int]] | None
    ) -> TableVerdict:
        """By the answers for ranges of the key where all are equal; else the table is searched whole. `count`: rows of
        both sides, where all ranges were asked for."""
        assert item.reading is not None
        reading = item.reading
        asked: list[Future[Any]] = [*passes, *([count] if count else [])]
        wait(asked)
        is_answered = reading.buckets is not None and not any(
            isinstance(one.exception(), SeamlineError) for one in asked
        )
        found = reading.found([one.result() for one in passes]) if is_answered else None
        if found and count and count.result() != (found.source.rows, found.destination.rows):
            found, reading.digests = None, {}
        with self._sides(item) as sides:
            verdict = compare_table(
                _spent(sides, passes),
                totals=self._totals,
                findings=item.findings,
                limits=self._limits,
                found=found,
            )
        if verdict.verdict is not Verdict.MATCH:
            return verdict
        if is_answered and not found and not reading.is_odd:
            return inconclusive(item.table.name, "its ranges differ, and no row of it: a view is not steady")
        return replace(verdict, reason=reading.in_words())

    def _parts(self, item: Work) -> list[Part]:
        """The parts that the first pass is asked for at the same time."""
        if item.reading is not None and is_read_by_ranges(item.table, item.reading):
            try:
                with self._sides(item) as sides:
                    return item.reading.parts(sides, self._limits)
            except SeamlineError:
                # As below.
                return [WHOLE]
        if self._limits.question_s:
            return [WHOLE]

        def span() -> tuple[int, int] | None:
            with self._sides(item) as sides:
                # A staged cut holds one date's rows alone, its source those of all years.
                return sides.destination.key_span(item.table.name)

        try:
            return parts_of(item.table, self._views, self._limits, span)
        except SeamlineError:
            # The comparison itself meets it again, and judges it.
            return [WHOLE]

    def _pass(self, item: Work, part: Part) -> Digests:
        with self._sides(item) as sides:
            if is_read_by_ranges(item.table, item.reading):
                return sides.digests(**part)
            return first_pass(sides, self._limits, part)

    def _count(self, item: Work) -> tuple[int, int]:
        with self._sides(item) as sides:
            return row_counts(sides)

    @contextmanager
    def _sides(self, item: Work) -> Iterator[Sides]:
        mine, theirs = self._pairs.get()
        try:
            yield Sides(
                item.table, mine, theirs, item.source_segment, item.destination_segment, self._run_key, self._check,
                item.apart,
            )  # fmt: skip
        finally:
            self._pairs.put((mine, theirs))


def _first_of(passes: Sequence[Future[Digests]], count: Future[tuple[int, int]]) -> Divided | None:
    """The whole first pass; None where a part failed: then it is asked again in one, and the error judged there."""
    asked: list[Future[Any]] = [*passes, count]
    wait(asked)
    if any(isinstance(one.exception(), SeamlineError) for one in asked):
        return None
    return Divided(joined([part.result() for part in passes]), count.result())


def _raising(error: SeamlineError) -> Callable[[], None]:
    def refuse() -> None:
        raise error

    return refuse


def _spent(sides: Sides, passes: Sequence[Future[Digests]]) -> Sides:
    """Sides that answer no more, and say how far it came, where the budget was over before all ranges were compared."""
    spent = next((exc for one in passes if isinstance(exc := one.exception(), BudgetSpent)), None)
    if spent is None:
        return sides
    answers = [one.result() for one in passes if one.exception() is None]
    differ = sum(sum_of(mine) != sum_of(theirs) for mine, theirs in answers)
    so_far = f"{differ} of them differ" if differ else "they are equal"
    text = f"{len(answers)} of {len(passes)} ranges of its key were compared till then, and {so_far}"
    return replace(sides, check=_raising(BudgetSpent(f"{spent.message}: {text}", hint=spent.hint)))


def compare_live(
    run: Run,
    destination: str,
    *,
    barrier: Aligns,
    views: int,
    findings: Callable[[], StreamFindings] = StreamFindings,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    limits: Limits | None = None,
    tried: Sequence[Tried] = (),
    spending: Callable[[], Spending | None] | None = None,
    repeated: Repeated | None = None,
    begin: Callable[[], None] = lambda: None,
) -> Reconciliation:
    """Compare the live tables of a destination with the source at one position, to which `barrier` brings both: the
    barrier (`sync.barrier`), or the log (`sync.log_patched`).

    Always gives a reconciliation: NOT_RUN when the sync must not be compared now, INCONCLUSIVE when both sides could
    not be brought to one position or a side failed, each with its reason; where a person has to act first, the evidence
    says so and what to do. Parked tables stand in it and do not count.
    `findings` gives those of the stream that no reconciliation has reported yet; they make this one BREAK. `tried`: the
    attempts of this run before this one. `spending`: begins the budget of the comparison, once the views are open.
    `repeated`: what is kept from one comparison to the next, where that is declared. `begin` waits, before anything is
    opened, until the source may be read.
    """
    plan = run.plan
    blank = _blank(run, destination, barrier.mode, tried, clock())
    try:
        begin()
        with barrier.aligned(views) as aligned:
            barrier.failpoints.reach("rec.pair_opened")
            met = findings()
            work = _work_of(plan, met, aligned, repeated, limits or Limits())
            spent = spending() if spending else None
            verdicts = compare_tables(
                work,
                source=aligned.source,
                destination=aligned.destination,
                totals=plan.reconcile.control_totals,
                check=within(spent, aligned.check),
                limits=limits_of(spent, limits),
                run_key=repeated.run_key if repeated else "",
            )
            barrier.failpoints.reach("rec.digest_done")
            verdicts, tested = self_tested(
                verdicts, work, source=aligned.source[0], destination=aligned.destination[0], check=aligned.check
            )
            blank = replace(blank, evidence={**blank.evidence, **tested, **evidence_of_budget(spent)})
            if repeated is not None and aligned.ledger is not None:
                pair = aligned.source[0], aligned.destination[0]
                verdicts, witnessed = repeated.concluded(verdicts, work, now=aligned.ledger, views=pair)
                blank = replace(blank, evidence={**blank.evidence, **witnessed})
            return _judged(_at(blank, aligned, met), plan, verdicts, clock())
    except NotComparable as exc:
        why = f"not compared: {exc.message}. To let it be compared: {exc.hint}"
        return _judged(blank, plan, tuple(not_run(table.name, why) for table in plan.tables), clock())
    except (Refused, StreamEnded) as exc:
        blank = replace(blank, evidence={**blank.evidence, NEEDS_A_PERSON: exc.hint})
        return _judged(blank, plan, _unknown(plan, exc), clock())
    except SeamlineError as exc:
        return _judged(blank, plan, _unknown(plan, exc), clock())


def _blank(run: Run, destination: str, mode: str, tried: Sequence[Tried], started: datetime) -> Reconciliation:
    """Of a comparison that has just begun."""
    plan = run.plan
    return Reconciliation(
        run_id=run.run_id,
        sync=plan.sync,
        destination=destination,
        scope=Scope.LIVE,
        business_date=run.business_date,
        position=None,
        position_time=None,
        mode=mode,
        verdict=Verdict.NOT_RUN,
        tables=(),
        started_at=started,
        ended_at=started,
        evidence={
            "digest": DIGEST,
            "config_hash": plan.config_hash,
            **transforms_evidence(plan.transforms_at(destination)),
            **evidence_of(tried),
        },
    )


def findings_reported(newest: Mapping[str, object]) -> FindingsReported:
    """How far findings of a stream were reported, by the evidence of the newest reconciliation of its live tables that
    has `FINDINGS_THROUGH`. What this very run has reported does not count: a repeat replaces it, and must say it again.
    """
    if FINDINGS_THROUGH not in newest:
        return FindingsReported()
    return FindingsReported(int(str(newest[FINDINGS_THROUGH])), str(newest.get(FINDINGS_KEPT_AT, "")))


def _work_of(
    plan: SyncPlan, met: StreamFindings, aligned: Aligned, repeated: Repeated | None, limits: Limits
) -> list[Work]:
    tables = [table.target for table in plan.tables]
    readings: Mapping[str, Reading] = {}
    if repeated is not None and aligned.ledger is not None:
        # Totals are over all rows, and what the stream met is to be seen.
        whole = {total.table for total in plan.reconcile.control_totals} | {one.table for one in met.found}
        readings = repeated.readings(tables, aligned.ledger, whole=whole, limits=limits)
    return [
        Work(table, Segment(table.name), Segment(table.name), met.of(table.name), reading=readings.get(table.name))
        for table in tables
    ]


def _at(blank: Reconciliation, aligned: Aligned, met: StreamFindings) -> Reconciliation:
    committed = datetime.fromtimestamp(aligned.position_ms / 1000, UTC) if aligned.position_ms else None
    through = {
        "held_s": round(aligned.held_s, 3),
        FINDINGS_THROUGH: met.reported.number,
        FINDINGS_KEPT_AT: met.reported.kept_at,
        **_written_under(aligned.destination[0]),
        **aligned.evidence,
    }
    return replace(blank, position=aligned.position, position_time=committed, evidence={**blank.evidence, **through})


def _written_under(view: ReadView) -> Mapping[str, str]:
    said = view.guarantee if isinstance(view, SaysGuarantee) else ""
    return {WRITTEN_UNDER: said} if said else {}


def _unknown(plan: SyncPlan, exc: SeamlineError) -> tuple[TableVerdict, ...]:
    return tuple(inconclusive(table.name, exc.message) for table in plan.tables)


def _judged(blank: Reconciliation, plan: SyncPlan, verdicts: Sequence[TableVerdict], ended: datetime) -> Reconciliation:
    tables = (*verdicts, *(table.verdict for table in plan.parked))
    return replace(blank, verdict=of_guaranteed(tables), tables=tables, ended_at=ended)
