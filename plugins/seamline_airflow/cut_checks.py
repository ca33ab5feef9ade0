"""The checks of one destination's staged cut: of what reconciliation found, and of the rows, in the way of its kind."""

from collections.abc import Iterable, Sequence
from functools import partial

from sqlalchemy import make_url

from seamline.domain.errors import GateFailed
from seamline.domain.staged_cut import StagedCut
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import CopiesRows, ShowsRows
from seamline.plan.checks import RulePlan, Says
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline_airflow import gx_engine
from seamline_airflow.expectations import Expectation, Frame, Outcome, staged_rows
from seamline_airflow.rule_queries import expectation_of


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
    rules = [rule for rule in plan.reconcile.rules if rule.says is not Says.ROLL_FORWARD]
    if isinstance(kind, CopiesRows):
        # Only what a suite asks of is copied: any table is held as it was compared, and its keys are the source's.
        asked = {table for table, *_ in checks} | {rule.table for rule in rules}
        with kind.copied(plan, destination, cut, asked) as copies:
            staged = staged_rows(plan, destination.name, copies, checks, _queries(kind, destination, rules))
            return gx_engine.check(frames, staged, partial(kind.rows_url, destination), suite=suite)
    if isinstance(kind, ShowsRows):
        staged = staged_rows(plan, destination.name, cut, checks, _queries(kind, destination, rules))
        return gx_engine.check(frames, staged, partial(kind.rows_url, destination), suite=suite)
    if checks or rules:
        raise GateFailed(
            f"rows of {destination.name} ({destination.kind}) cannot be checked by Great Expectations",
            hint="leave `reconcile.expectations` and `reconcile.rules` out of the sync, or let it go into a destination"
            " of another kind",
        )
    return gx_engine.check(frames, (), str, suite=suite)


def _queries(kind: ShowsRows, destination: DestinationPlan, rules: Sequence[RulePlan]) -> list[tuple[str, Expectation]]:
    """(table, query) of each rule, with names as the database of the rows writes them."""
    if not rules:
        return []
    url = make_url(kind.rows_url(destination, destination.stage_namespace))
    quote = url.get_dialect()().identifier_preparer.quote_identifier
    return [(rule.table, expectation_of(rule, quote)) for rule in rules]
