"""A person decides about a cut that is not clean: what is asked, of whom, and which answers are taken."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import Param
from airflow.sdk.exceptions import AirflowFailException

from seamline.domain.decision import DECISION, Decision, DecisionState, decision_from_json
from seamline.domain.errors import Refused
from seamline.domain.person import is_same_person
from seamline.domain.runs import ASKED_BY, Scope
from seamline.plan.model import Run
from seamline_airflow import parts
from seamline_airflow.errors import task_errors
from seamline_airflow.operators.gate import Question, name_of, reason_of
from seamline_airflow.question import question_text

# Airflow checks the parameters of a task before it runs, so an answer that is yet to be given may be nothing there. The
# person's form is made of the second: it takes no answer without a reason.
_REASON: dict[str, Any] = {
    "type": ["null", "string"],
    "title": "Reason",
    "description_md": "Kept with the cut. Needed.",
    "source": "task",
}
_REASON_ASKED = {"type": "string", "minLength": 1, "pattern": "\\S"}


class CutApprovalOperator(ApprovalOperator):
    """Ask whether the cut of the run that `run` names is published though it is not clean, in the destinations where it
    is not. It is one decision about all of these, and about no other.

    Rejected, or not answered in time: the run is red, for good. An answer without a reason is not taken, also not one
    by Airflow's API, which does not look at it (3.3.2): it is asked again. Neither is an approval by the person who
    asked for the run or worked on it, which the platform database refuses.

    Retries are only for an answer that Airflow lost: one given in the very second of the question meets a scheduler
    that still takes the end of the asking process for a lost task (seen with Airflow 3.3.2). It asks again then.
    """

    template_fields = (*ApprovalOperator.template_fields, "run")

    def __init__(self, *, run: str, approvers: Sequence[str], **kwargs: Any) -> None:
        # The DAG's own parameters, which Airflow hands to every task, are no part of the answer.
        kwargs["params"] = {"reason": Param(None, **_REASON)}
        super().__init__(**kwargs)
        self.run = run
        self.approvers = tuple(approvers)

    @property
    def serialized_params(self) -> dict[str, dict[str, Any]]:
        """The parameters of the person's form. The reason of the run does not count as one for the approval."""
        shown = super().serialized_params["reason"]
        return {"reason": {**shown, "value": None, "schema": {**shown["schema"], **_REASON_ASKED}}}

    def execute(self, context: Any) -> Any:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            waiting = Question.left_by_gate(run).waiting
            self._ask_about(run, waiting, store)
            asked = Decision.asked(self.approvers, destinations=waiting)
            # Asked again after an answer that Airflow lost, it waits since it was asked first.
            kept = decision_from_json(run.result.get(DECISION))
            if kept is None or replace(kept, since=asked.since) != asked:
                store.put_result(run.run_id, DECISION, asked.to_json())
        return super().execute(context)

    def execute_complete(self, context: Any, event: dict[str, Any]) -> Any:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            asked = decision_from_json(run.result.get(DECISION)) or Decision.asked(
                self.approvers, destinations=Question.left_by_gate(run).waiting
            )
            decided = _decided(asked, event)
            if decided is not None and decided.state is DecisionState.APPROVED and _asked_for(run, decided.who):
                self.log.warning(
                    "%s asked for this run: another person has to approve, so it is asked again", decided.who
                )
                decided = None
            if decided is not None and not self._is_kept(store, run, decided):
                decided = None
        if "error" in event:
            raise AirflowFailException(f"nobody decided about this cut: {event['error']}")
        if self.REJECT in event["chosen_options"]:
            reason = reason_of(event) or "no reason given"
            raise AirflowFailException(f"{name_of(event)} rejected this cut: {reason}")
        if decided is None:
            self.log.warning("the approval of %s is not taken, and asked again", name_of(event))
            return super().execute(context)
        return super().execute_complete(context, event)

    def _is_kept(self, store: Any, run: Run, decided: Decision) -> bool:
        """An approval by a person who has worked on the run is refused by the database, which alone knows of that."""
        try:
            store.put_result(run.run_id, DECISION, decided.to_json())
        except Refused as refused:
            if decided.state is not DecisionState.APPROVED:
                raise
            self.log.warning("%s: it is asked again", refused.message)
            return False
        return True

    def _ask_about(self, run: Run, waiting: Sequence[str], store: Any) -> None:
        where = f" in {' and '.join(waiting)}" if len(run.plan.destinations) > 1 else ""
        self.subject = f"Publish the cut of {run.sync} for {run.business_date}{where} although it is not clean?"
        found = [store.reconciliation(run.run_id, Scope.CUT, name) for name in waiting]
        self.body = question_text(run, [one for one in found if one is not None], self.approvers)


def _asked_for(run: Run, who: str) -> bool:
    return is_same_person(run.result.get(ASKED_BY), who)


def _decided(asked: Decision, event: Mapping[str, Any]) -> Decision | None:
    """The decision that an answer makes; None where it decides nothing."""
    if "error" in event:
        return asked.answered(DecisionState.EXPIRED) if event.get("error_type") == "timeout" else None
    who, reason, at = name_of(event), reason_of(event), event["responded_at"]
    if ApprovalOperator.REJECT in event["chosen_options"]:
        return asked.answered(DecisionState.REJECTED, who=who, reason=reason, at=at)
    return asked.answered(DecisionState.APPROVED, who=who, reason=reason, at=at) if reason else None
