"""What becomes of a staged cut: it is published, a person is asked, or the run stops."""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseBranchOperator

from seamline.domain.decision import DECISION
from seamline.domain.errors import GateFailed, Refused
from seamline.domain.runs import EXPECTATIONS, GATE, MODE, NightlyMode, RunState, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.model import Run
from seamline.sync.cut import require_staged_everywhere, staged_in
from seamline_airflow import deadline, parts
from seamline_airflow.errors import task_errors

# The alarm about a cut that is not published as it is. It ends when a take of the date is.
NOT_CLEAN = "cut_not_clean"
_APPROVED = "Approve"


@dataclass(frozen=True, slots=True)
class Question:
    """What the gate judged: a fingerprint of the staged cut and of what was checked, what was not clean, and when."""

    subject: str
    lines: tuple[str, ...]
    asked_at: str

    @staticmethod
    def of(run: Run, lines: Sequence[str]) -> "Question":
        return Question(_subject(run), tuple(lines), datetime.now(UTC).isoformat())

    @staticmethod
    def left_by_gate(run: Run) -> "Question":
        """GateFailed where the gate has not judged what is staged now."""
        left = run.result.get(GATE)
        if left is None or left["subject"] != _subject(run):
            raise GateFailed(
                f"the gate has not judged the cut of {run.business_date} that is staged now",
                hint="clear the task `gate` with those after it",
                sync=run.sync,
            )
        return Question(left["subject"], tuple(left["lines"]), left["asked_at"])

    def to_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "lines": list(self.lines), "asked_at": self.asked_at}

    def signature(self, answer: Any) -> str:
        """Who approved, and why; "" where nobody had to be asked, or nobody answered.

        Refused: an approval without a reason, and one that was given before this question was asked.
        """
        if not self.lines or not answer or _APPROVED not in (answer.get("chosen_options") or []):
            return ""
        if datetime.fromisoformat(str(answer["responded_at"])) < datetime.fromisoformat(self.asked_at):
            raise Refused(
                "the approval was given for an earlier take of this cut",
                hint="clear the task `approve`: the person sees what is staged now",
            )
        if not (reason := reason_of(answer)):
            raise Refused(
                "the cut was approved without a reason",
                hint="clear the task `approve` and give one: it is kept with the cut",
            )
        return f"{name_of(answer)}: {reason}"


def reason_of(answer: Mapping[str, Any]) -> str:
    """Why somebody answered so; "" where no reason was given."""
    return one_line((answer.get("params_input") or {}).get("reason"))


def name_of(answer: Mapping[str, Any]) -> str:
    """Who answered. A name with a colon could pass for a name and a reason."""
    user = answer.get("responded_by_user") or {}
    return one_line(str(user.get("name") or user.get("id") or "").replace(":", " ")) or "somebody"


def one_line(text: object) -> str:
    """As terminals may show it too: nothing in it moves a cursor."""
    return " ".join("".join(letter if letter.isprintable() else " " for letter in str(text or "")).split())


def _subject(run: Run) -> str:
    judged = {key: run.result.get(key) for key in ("cut", EXPECTATIONS)}
    return hashlib.sha256(json.dumps(judged, sort_keys=True).encode()).hexdigest()


class GateOperator(BaseBranchOperator):
    """All clean: on to `publish`. Otherwise `on_break` decides: ask, fail, or publish_and_flag.

    A run that compares only ends here, red where it is not clean.

    Fails closed: without a saved reconciliation of this run's cut, or with no table compared, nobody is even asked.
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, on_break: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.on_break = on_break

    def choose_branch(self, context: Any) -> str | None:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            lines = list(_blemishes(run, store))
            for line in lines:
                self.log.warning("%s", line)
            store.put_result(run.run_id, GATE, Question.of(run, lines).to_json())
            store.put_result(run.run_id, DECISION, None)
            if compares_only(run):
                return self._end_here(run, store, lines)
            about = deadline.subject(run.sync, run.business_date)
            if not lines or self.on_break == "publish_and_flag":
                store.end_alarm(NOT_CLEAN, about)
                return "publish"
            how = "waits for a signature" if self.on_break == "ask" else "is not published"
            what = f"the newest take of the cut of {run.business_date} is not clean, and {how}"
            store.raise_alarm(NOT_CLEAN, about, f"{what}: {'; '.join(lines)}")
            if self.on_break == "ask":
                return "approve"
            raise GateFailed(
                f"the cut of {run.business_date} is not published: {'; '.join(lines)}",
                hint="on_break is `fail`: mend the cause, then run this date again",
                sync=run.sync,
            )

    def _end_here(self, run: Run, store: Any, lines: Sequence[str]) -> None:
        """Nothing was to be published, so nothing of the date changes, its alarm neither."""
        if lines:
            raise GateFailed(
                f"compared only, and not clean: {'; '.join(lines)}",
                hint="nothing was to be published; the report of the date shows the rows",
                sync=run.sync,
            )
        require_staged_everywhere(run)
        store.finish_run(run.run_id, state=RunState.SUCCEEDED)
        self.log.info("compared only, as asked: all is clean, and nothing is published")


def compares_only(run: Run) -> bool:
    return bool(run.result.get(MODE) == NightlyMode.COMPARE_ONLY)


def _blemishes(run: Run, store: Any) -> Iterator[str]:
    """What is not clean, a line each; names and counts only. Raises GateFailed where nothing is known."""
    for destination in staged_in(run):
        found = store.reconciliation(run.run_id, Scope.CUT, destination.name)
        compared = [table for table in found.tables if table.verdict is not Verdict.NOT_RUN] if found else []
        if not compared:
            raise GateFailed(
                f"the cut of {run.business_date} for {destination.name} was not reconciled",
                hint="run the task `cut` again",
                sync=run.sync,
            )
        for table in found.tables if found else ():
            if table.verdict is not Verdict.MATCH and not table.is_left_out:
                what = f"{table.breaks_total} breaks {table.reason}".strip()
                yield f"{destination.name}: {table.table} {table.verdict}, {what}"
    yield from _unmet(run)


def _unmet(run: Run) -> Iterator[str]:
    checked = run.result.get(EXPECTATIONS)
    if not checked:
        raise GateFailed("the expectations left no result", hint="run the task `expectations` again", sync=run.sync)
    if checked["verdict"] == Verdict.NOT_RUN:
        raise GateFailed("the expectations were not evaluated", hint="run the task `expectations` again", sync=run.sync)
    for failed in checked["failed"]:
        yield f"{failed['on']}: not met: {failed['why']} ({failed['detail']})"
