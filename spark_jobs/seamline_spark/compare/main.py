"""The live comparison as a job: both sides at one position, digests on both, one reconciliation per destination.

Both databases digest by themselves; this process asks, waits and drills down, so its tables run in threads and no row
goes through Spark. The verdict is the result, also when it is BREAK: the exit code says only whether it was saved.
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from typing import Protocol

from seamline import registry
from seamline.cluster.code_archive import code_in_use, with_code
from seamline.domain.baseline import Baseline
from seamline.domain.errors import SeamlineError
from seamline.domain.ledger import StreamId
from seamline.domain.runs import WHOLE, Reconciliation, RunKind, Scope
from seamline.domain.staged_cut import CutSource
from seamline.domain.verdict import Verdict
from seamline.plan.model import Run, SyncPlan
from seamline.platform.store import PlatformStore
from seamline.ports import Failpoints, ReadView, Sink, StreamDirector, Unarmed
from seamline.sync.barrier import BARRIER, VERSIONED, Aligns, Barrier, Patience
from seamline.sync.budget import Spending, begun
from seamline.sync.comparison import FINDINGS_THROUGH, StreamFindings, compare_live, findings_reported
from seamline.sync.log_patched import LogLimits, LogPatched
from seamline.sync.reading_pace import Pacer
from seamline.sync.repeated import Repeated
from seamline.sync.repetition import Tried, until_conclusive
from seamline.sync.separate import compare_separately
from seamline.sync.third_witness import LogOfSync
from seamline_spark.session import as_an_application

log = logging.getLogger("seamline_spark.compare")

# Sessions per side. More than the databases have cores to spare for us only makes each table slower.
VIEWS = 2


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="table_compare", description="Compares the live tables of a run's sync.")
    parser.add_argument("--run", required=True, help="id of the run in the platform database")
    run_id = parser.parse_args(argv).run
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Before a deployment beside it can change what is installed.
    code_in_use()
    try:
        with as_an_application():
            compare_run(run_id)
    except SeamlineError as exc:
        sys.stderr.write(f"table_compare: {exc}\n")
        return exc.exit_code
    return 0


def compare_run(run_id: str) -> tuple[Reconciliation, ...]:
    """Compare every destination that has the run's tables and save what was found; what was INCONCLUSIVE again, as
    often as the plan allows. Raises the first error when all were tried. Repeat-safe: a repeat replaces what was found,
    but for a BREAK, which is never compared again."""
    with closing(registry.platform()) as store:
        run = store.run(run_id).where_published
        armed = registry.failpoints() or Unarmed()
        found, failed = _compare_each(run, store, armed)
        summary = {
            reconciliation.destination: {
                "verdict": reconciliation.verdict.value,
                "position": str(reconciliation.position or ""),
                "tables": {verdict.table: verdict.verdict.value for verdict in reconciliation.tables},
            }
            for reconciliation in found
        }
        store.put_result(run_id, "compare", summary)
    if failed:
        raise failed[0]
    return tuple(found)


def _compare_each(
    run: Run, store: PlatformStore, armed: Failpoints
) -> tuple[list[Reconciliation], list[SeamlineError]]:
    """What was found of each destination that could be compared, and the errors of the others."""
    found: list[Reconciliation] = []
    failed: list[SeamlineError] = []
    with closing(registry.director()) as director:
        for destination in run.plan.destinations:
            try:
                known = _break_of_before(run, destination.name, store)
                found.append(
                    known
                    or compare_destination(run, destination.name, records=store, director=director, failpoints=armed)
                )
            except SeamlineError as exc:
                log.error("%s was not compared: %s", destination.name, exc)
                failed.append(exc)
    return found, failed


def _break_of_before(run: Run, destination: str, store: PlatformStore) -> Reconciliation | None:
    """What an earlier attempt at this comparison has found, if it was a BREAK. Onboarding and changes of tables compare
    again what a person has repaired."""
    found = store.reconciliation(run.run_id, Scope.LIVE, destination) if run.kind is RunKind.RECONCILE else None
    return found if found is not None and found.verdict is Verdict.BREAK else None


class Reconciliations(Protocol):
    """What comparing needs of the platform database."""

    def newest_evidence(
        self, sync: str, destination: str, scope: str, *, key: str, but_of_run: str
    ) -> Mapping[str, object]: ...

    def save_reconciliation(self, reconciliation: Reconciliation) -> None: ...


def compare_destination(
    run: Run, destination: str, *, records: Reconciliations, director: StreamDirector, failpoints: Failpoints
) -> Reconciliation:
    """Compare the live tables of one destination and save what was found, again while it is INCONCLUSIVE."""
    if run.plan.reconcile_only is not None:
        return _compare_separately(run, destination, records)
    plan = run.plan.held_by(destination)
    run = replace(run, plan=plan)
    stream = plan.stream_id(destination)
    newest = records.newest_evidence(plan.sync, destination, Scope.LIVE, key=FINDINGS_THROUGH, but_of_run=run.run_id)
    after = findings_reported(newest)

    def findings() -> StreamFindings:
        return StreamFindings(*registry.findings(plan, destination, after=after))

    def compare(tried: Sequence[Tried]) -> Sequence[Reconciliation]:
        with _repeated(run, destination) as repeated:
            pacer = registry.comparing_pacer(plan.source)
            found = compare_live(
                run, destination, barrier=barrier, views=_views(plan), findings=findings, tried=tried,
                spending=_spending_of(plan, pacer), repeated=repeated, begin=_beginning(pacer),
            )  # fmt: skip
        records.save_reconciliation(with_code(registry.with_level(plan, found)))
        return [found]

    with closing(registry.sink(plan, destination)) as sink:
        barrier = _aligning(plan, stream, sink, director, failpoints)
        (found,) = until_conclusive(compare, attempts=plan.reconcile.attempts)
    failpoints.reach("rec.breaks_written")
    _log(found)
    return found


def _aligning(plan: SyncPlan, stream: StreamId, sink: Sink, director: StreamDirector, failpoints: Failpoints) -> Aligns:
    """What brings both sides to one position, as is declared for the destination."""
    source = registry.compared_source(plan, stream.destination)

    def views(count: int) -> Sequence[ReadView]:
        return registry.destination_views(plan, stream.destination, count)

    if stream.destination not in plan.reconcile.by_log:
        patience = Patience.of(plan)
        is_versioned = plan.destination(stream.destination).cut_source is CutSource.LIVE
        mode = VERSIONED if is_versioned else BARRIER
        return Barrier(stream, director, source, sink, views, patience=patience, failpoints=failpoints, mode=mode)
    return LogPatched(
        plan,
        stream,
        source,
        sink,
        views,
        lambda: registry.log_reader(plan),
        registry.log_patches(plan),
        limits=LogLimits(wait_max_s=plan.reconcile.wait_max_s),
        failpoints=failpoints,
    )


@contextmanager
def _repeated(run: Run, destination: str) -> Iterator[Repeated | None]:
    """What comparisons of this destination leave to the next one; None where that is not declared, and by the log: its
    sides stand at no ledger's place."""
    plan = run.plan
    if not plan.reconcile.rotate or destination in plan.reconcile.by_log:
        yield None
        return
    stream = plan.stream_id(destination)
    with closing(registry.baselines()) as store:
        kept = store.read(stream)
        log_of_sync = LogOfSync(lambda: registry.log_reader(plan), registry.log_images(plan, destination))

        def keep(new: Sequence[Baseline], broken: Sequence[str]) -> None:
            store.keep(stream, new, broken)

        is_whole = bool(run.result.get(WHOLE))
        yield Repeated(
            kept.run_key, plan.reconcile.rotate, kept.baselines, kept.broken, log_of_sync, keep, is_whole=is_whole
        )


def _compare_separately(run: Run, destination: str, records: Reconciliations) -> Reconciliation:
    """Once: what was in flight would be another thing at the next look, and waiting for a MATCH proves nothing."""
    source, other = registry.separate_sides(run.plan, destination)
    pacer = registry.comparing_pacer(run.plan.source)
    found = compare_separately(
        run, destination, source=source, other=other, views=_views(run.plan),
        spending=_spending_of(run.plan, pacer), begin=_beginning(pacer),
    )  # fmt: skip
    records.save_reconciliation(with_code(found))
    _log(found)
    return found


def _views(plan: SyncPlan) -> int:
    return plan.reconcile.budget.sessions if plan.reconcile.budget else VIEWS


def _spending_of(plan: SyncPlan, pacer: Pacer | None) -> Callable[[], Spending | None]:
    return lambda: begun(plan.reconcile.budget, pacer)


def _beginning(pacer: Pacer | None) -> Callable[[], None]:
    return pacer.begin if pacer else lambda: None


def _log(found: Reconciliation) -> None:
    for verdict in found.tables:
        log.info(
            "table compared: sync=%s table=%s verdict=%s position=%s source_rows=%s destination_rows=%s breaks=%d %s",
            found.sync, verdict.table, verdict.verdict, verdict.position or "-", verdict.source_rows,
            verdict.destination_rows, verdict.breaks_total, verdict.reason,
        )  # fmt: skip
