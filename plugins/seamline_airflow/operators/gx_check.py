"""Great Expectations as the gate before a cut is published."""

from collections.abc import Sequence
from typing import Any

from airflow.sdk import BaseOperator

from seamline import settings
from seamline.domain.decision import DECISION
from seamline.domain.errors import GateFailed, Refused, TransientError
from seamline.domain.runs import EXPECTATIONS, Scope, checked_in
from seamline.domain.staged_cut import StagedCut, cut_from_json
from seamline.domain.verdict import Verdict
from seamline.plan.checks import Says
from seamline.plan.model import DestinationPlan, Run
from seamline.sync.cut import published_by, staged_in
from seamline_airflow import gx_engine, parts
from seamline_airflow.cut_checks import judge_cut
from seamline_airflow.errors import task_errors
from seamline_airflow.expectations import GateResult, result_frames
from seamline_airflow.roll_forward import Before, date_before, rolled_forward


class GXCheckOperator(BaseOperator):
    """Run the suite `<sync>__reconciliation` of the run that `run` names: result tables and staged cut.

    `on_mismatch`: "fail" ends the task red on any unmet expectation; "return" leaves breaks to the next task. Missing
    evidence (reconciliation did not run, a table without a verdict, a destination that does not answer) is red in
    both, with "return" only where no destination has all of it: the others are not kept waiting, and nobody can sign
    for this one. Returns verdict and failures by destination.

    Where the cut is published its checks stand: what was staged is gone. Refused where that is so of all.
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, suite: str = "", on_mismatch: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.suite = suite
        self.on_mismatch = on_mismatch

    def execute(self, context: Any) -> dict[str, Any]:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            checks = gx_engine.load_checks(settings.load().declarations, self.suite)
            found, waiting = _published_and_waiting(run, store)
            wrong: dict[str, GateFailed | TransientError] = {}
            for destination in waiting:
                result, trouble = self._check(run, destination, store, checks)
                found[destination.name] = {"suite": suite_of(run), "declared": self.suite, **result.to_json()}
                if trouble is not None:
                    wrong[destination.name] = trouble
                    self.log.error("%s", trouble)
            store.put_result(run.run_id, EXPECTATIONS, {"destinations": found})
            store.put_result(run.run_id, DECISION, None)
            if wrong and (self.on_mismatch == "fail" or len(wrong) == len(found)):
                raise next(iter(wrong.values()))
        return found

    def _check(
        self, run: Run, destination: DestinationPlan, store: Any, checks: Sequence[gx_engine.Check]
    ) -> tuple[GateResult, GateFailed | TransientError | None]:
        """What was found in one destination, and why that is not good enough to go on with it."""
        found = store.reconciliation(run.run_id, Scope.CUT, destination.name)
        try:
            frames = result_frames(run, destination.name, found)
            cut = _staged_cut(run, destination.name)
            outcomes = judge_cut(run.plan, destination, cut, frames, checks, suite=suite_of(run))
        except (GateFailed, TransientError) as trouble:
            return GateResult.impossible(destination.name, trouble.message), trouble
        before = _before(run, destination.name, store)
        result = GateResult((*outcomes, *rolled_forward(run, destination, found, before)))
        self._report(run, destination.name, result)
        return result, self._trouble(run, destination.name, result)

    def _report(self, run: Run, destination: str, result: GateResult) -> None:
        met = sum(outcome.is_met for outcome in result.outcomes)
        self.log.info(
            "suite %s in %s: %d of %d expectations met", suite_of(run), destination, met, len(result.outcomes)
        )
        for outcome in result.outcomes:
            word = "met" if outcome.is_met else "NOT MET"
            said = outcome.detail or outcome.note
            self.log.info("%s: %s: %s %s", word, outcome.batch, outcome.expectation.why, said)
            for key in outcome.keys:
                self.log.info("  %s", key)

    def _trouble(self, run: Run, destination: str, result: GateResult) -> GateFailed | None:
        failed = result.missing if result.verdict is Verdict.NOT_RUN else result.broken
        if result.verdict is Verdict.MATCH or (result.verdict is Verdict.BREAK and self.on_mismatch == "return"):
            return None
        what = "; ".join(f"{o.batch}: {o.expectation.why} ({o.detail})" for o in failed) or "nothing was checked"
        return GateFailed(
            f"the gate of {run.business_date} in {destination} is {result.verdict}: {what}",
            hint="see the Reconciliation page; run the task `cut` again when reconciliation did not run",
            sync=run.sync,
        )


def _published_and_waiting(run: Run, store: Any) -> tuple[dict[str, Any], list[DestinationPlan]]:
    """What stands of the destinations where the cut of this run is published, and those that are to be checked."""
    published = published_by(run, store.cuts(run.sync, run.business_date))
    waiting = [one for one in staged_in(run) if one.name not in published]
    if published and not waiting:
        raise Refused(
            f"the cut of {run.business_date} is published in {', '.join(published)}: its checks stand",
            hint="what was staged is gone; run this date again: it gets a next version with checks of its own",
            sync=run.sync,
        )
    stand = {name: checked_in(run.result, name) for name in published}
    return {name: left for name, left in stand.items() if left}, waiting


def _before(run: Run, destination: str, store: Any) -> Before:
    """What a destination has of the date before; only a rule that rolls forward needs it."""
    if run.business_date is None or all(rule.says is not Says.ROLL_FORWARD for rule in run.plan.reconcile.rules):
        return Before()
    day = date_before(run)
    cuts = [cut for cut in store.cuts(run.sync) if cut.destination == destination and cut.business_date <= day]
    of_day = [cut for cut in cuts if cut.business_date == day]
    if not of_day:
        return Before(is_first=not cuts)
    found = (store.reconciliation(cut.run_id, Scope.CUT, destination) for cut in of_day)
    return Before.of_versions(one for one in found if one is not None)


def suite_of(run: Run) -> str:
    return f"{run.sync}__reconciliation"


def _staged_cut(run: Run, destination: str) -> StagedCut:
    document = (run.result.get("cut") or {}).get(destination)
    if document is None:
        raise GateFailed(
            f"run {run.run_id} has staged no cut for {destination}: reconciliation did not run",
            hint="run the task `cut` again",
            sync=run.sync,
        )
    return cut_from_json(document)
