"""The checks of one destination's staged cut: of what reconciliation found, and of the rows, in the way of its kind."""

from collections.abc import Iterable, Sequence
from functools import partial

from seamline.domain.errors import GateFailed
from seamline.domain.staged_cut import StagedCut
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CopiesRows, ShowsRows
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline_airflow import gx_engine
from seamline_airflow.expectations import Frame, Outcome, staged_rows


def judge_cut(
    plan: SyncPlan,
    destination: DestinationPlan,
    cut: StagedCut,
    frames: Iterable[Frame],
    checks: Sequence[gx_engine.Check],
    *,
    suite: str,
) -> list[Outcome]:
    """What Great Expectations says of the frames and of the rows. GateFailed or TransientError: the rows cannot be
    checked, which is never a pass."""
    kind, plan = sink_kind(destination.kind), plan.at_destination(destination.name)
    if isinstance(kind, CopiesRows):
        # Only what a suite asks of is copied: any table is held as it was compared, and its keys are the source's.
        asked = {table for table, *_ in checks}
        with kind.copied(plan, destination, cut, asked) as copies:
            staged = staged_rows(plan, destination.name, copies, checks)
            return gx_engine.check(frames, staged, partial(kind.rows_url, destination), suite=suite)
    if isinstance(kind, ShowsRows):
        staged = staged_rows(plan, destination.name, cut, checks)
        return gx_engine.check(frames, staged, partial(kind.rows_url, destination), suite=suite)
    if checks:
        raise GateFailed(
            f"rows of {destination.name} ({destination.kind}) cannot be checked by Great Expectations",
            hint="leave `reconcile.expectations` out of the sync, or let it go into a destination of another kind",
        )
    return gx_engine.check(frames, (), str, suite=suite)
