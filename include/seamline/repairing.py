"""Repairs with everything real: `./seamline repair`, the DAG `<sync>__repair` and the page call this."""

import secrets
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from seamline import registry
from seamline.cluster.code_archive import with_code
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.repair import BY_COMMAND_LINE, Repair, RepairState, Texts
from seamline.domain.runs import Reconciliation, RunKind, RunState, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import Run, SyncPlan
from seamline.platform.database import Database
from seamline.platform.repairs import PlatformRepairs
from seamline.platform.store import PlatformStore
from seamline.ports import Failpoints, Sink, Unarmed
from seamline.sync.barrier import Barrier, Patience
from seamline.sync.comparison import FINDINGS_THROUGH, StreamFindings, compare_live, findings_reported
from seamline.sync.repair import Applying, plan_repair

_VIEWS = 2
_LOOKED_AT = 20


@dataclass(frozen=True, slots=True)
class GivenRows:
    """`sync.repair.WritesGivenRows`."""

    def image(self, texts: Texts) -> bytes:
        from seamline.values.canonical_rows import image_of

        return image_of(texts)

    def unfit(self, table: Table, texts: Texts) -> str:
        from seamline.values.canonical_rows import unfit

        return unfit(table, texts)


def new_run_id(sync: str) -> str:
    """Of a repair that no DAG's run has planned."""
    return f"{sync}/{RunKind.REPAIR.value}/-/{BY_COMMAND_LINE}{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(2)}"


def plan(
    sync: str, *, by: str, origin: str, destination: str = "", compared: str = "", run_id: str = "", why: str = ""
) -> Repair:
    """Plan a repair of what a comparison of live tables has found, and keep the plan. Nothing else is changed.

    `compared`: the comparison's run; left out, the newest of the destination. `why`: in words of who asks. Repeat-safe
    with a `run_id`: the plan that is kept stays. Refused with the cure where nothing can be repaired row by row.
    """
    with closing(registry.platform()) as store, closing(repairs()) as kept:
        if run_id and (known := _kept(kept, run_id)) is not None:
            return known
        found = _compared(store, sync, destination, compared)
        of_run = store.run(found.run_id).where_published.plan
        _require_ours(of_run)
        held = of_run.held_by(found.destination)
        stream = held.stream_id(found.destination)
        _carried(stream, held)
        with closing(registry.sink(held, found.destination)) as sink:
            planned = plan_repair(found, held, barrier=_barrier(held, stream, sink), writes=GivenRows())
        repair = Repair(
            run_id=run_id or new_run_id(sync),
            sync=sync,
            destination=found.destination,
            compared=found.run_id,
            position=planned.position,
            rows=planned.rows,
            refused=planned.refused,
            why=why,
        )
        kept.save(repair, plan_json=plan_to_json(of_run.into([found.destination])), by=by, origin=origin)
        return kept.repair(repair.run_id)


def apply(run_id: str) -> Repair:
    """Apply an approved repair and compare the live tables again, at the position where it was applied.

    Repeat-safe: rows that were changed are not changed again, and the comparison is made again. Refused unless it is
    approved. Raises what kept it from being applied; the verdict of the comparison is the repair's, whatever it is.
    """
    with closing(registry.platform()) as store, closing(repairs()) as kept, closing(registry.director()) as director:
        repair = kept.approved(run_id)
        run = store.run(run_id)
        held = run.plan.held_by(repair.destination)
        stream = held.stream_id(repair.destination)
        plan_json = _carried(stream, held)
        armed = registry.failpoints() or Unarmed()
        with (
            closing(registry.sink(held, repair.destination)) as sink,
            closing(registry.repair_sink(held, repair.destination)) as writing,
        ):
            applying = Applying(
                repair,
                stream,
                {entry.name: entry.target for entry in held.tables},
                director,
                writing,
                lambda count: registry.destination_views(held, repair.destination, count),
                GivenRows(),
                kept,
                plan_json,
                armed,
                # What is applied is over: should the rows differ once more, that is another repair.
                is_done=repair.state is RepairState.APPLIED,
            )
            barrier = replace(_barrier(held, stream, sink, armed), at_position=applying)
            found = _compare(replace(run, plan=held), repair, store, barrier)
        if not applying.is_done:
            raise applying.failed or TransientError(
                f"repair {run_id} was not applied: {_reasons(found)}",
                hint="nothing was changed; apply it again",
                sync=repair.sync,
            )
        store.save_reconciliation(with_code(registry.with_level(held, found)))
        kept.verified(run_id, found.verdict)
        store.finish_run(run_id, state=RunState.SUCCEEDED)
        return kept.repair(run_id)


def repairs() -> PlatformRepairs:
    return PlatformRepairs(Database())


def _kept(kept: PlatformRepairs, run_id: str) -> Repair | None:
    try:
        return kept.repair(run_id)
    except Refused:
        return None


def _compared(store: PlatformStore, sync: str, destination: str, compared: str) -> Reconciliation:
    """The comparison that is asked for, or the newest of the destination; of those that differ, where only one does."""
    if compared:
        found = store.live_reconciliations_of(sync, compared) or store.live_reconciliations_named(sync, compared)
    else:
        found = store.live_reconciliations(sync, _LOOKED_AT)
    newest: dict[str, Reconciliation] = {}
    for one in found:
        newest.setdefault(one.destination, one)
    mine = [one for one in newest.values() if destination in ("", one.destination)]
    broken = [one for one in mine if one.verdict is Verdict.BREAK] if len(mine) > 1 else mine
    if len(broken) != 1:
        names = ", ".join(sorted(one.destination for one in broken or mine)) or "none"
        what = f"{len(broken)} destinations differ" if mine else "there is no comparison of the live tables"
        raise Refused(f"{what} of {sync}: {names}", hint="name one destination; compare it first", sync=sync)
    return broken[0]


def _require_ours(plan: SyncPlan) -> None:
    if plan.reconcile_only is not None:
        raise Refused(
            f"another tool carries the tables of {plan.sync}: whatever is written beside it is not repaired",
            hint="correct the rows by that tool, and compare again",
            sync=plan.sync,
        )


def _carried(stream: StreamId, held: SyncPlan) -> str:
    """The plan by which the stream is wanted. Refused where it carries other tables than were compared."""
    with closing(registry.platform_maintenance()) as known:
        running = known.wanted_plans(stream.sync).get(stream)
    if running is None:
        raise Refused(f"{stream} was never wanted", hint="onboard the sync first", sync=stream.sync)
    of_stream = {entry.name: entry.target for entry in running.held_by(stream.destination).tables}
    if of_stream != {entry.name: entry.target for entry in held.tables}:
        raise Refused(
            f"{stream} carries other tables than were compared", hint="compare the live tables again", sync=stream.sync
        )
    return plan_to_json(running)


def _barrier(held: SyncPlan, stream: StreamId, sink: Sink, armed: Failpoints | None = None) -> Barrier:
    return Barrier(
        stream,
        registry.director(),
        registry.compared_source(held, stream.destination),
        sink,
        lambda count: registry.destination_views(held, stream.destination, count),
        patience=Patience.of(held),
        failpoints=armed or Unarmed(),
    )


def _compare(run: Run, repair: Repair, store: PlatformStore, barrier: Barrier) -> Reconciliation:
    newest = store.newest_evidence(
        repair.sync, repair.destination, Scope.LIVE, key=FINDINGS_THROUGH, but_of_run=run.run_id
    )
    after = findings_reported(newest)

    def findings() -> StreamFindings:
        return StreamFindings(*registry.findings(run.plan, repair.destination, after=after))

    return compare_live(run, repair.destination, barrier=barrier, views=_VIEWS, findings=findings)


def _reasons(found: Reconciliation) -> str:
    return "; ".join(dict.fromkeys(table.reason for table in found.tables if table.reason))
