"""What becomes of a staged cut: it is published, a person is asked, or the run stops. Each destination's by itself."""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseBranchOperator

from seamline.domain.alarms import AlarmKind
from seamline.domain.decision import DECISION
from seamline.domain.errors import GateFailed, Refused
from seamline.domain.person import one_line, person_of
from seamline.domain.phrase import counted
from seamline.domain.runs import EXPECTATIONS, GATE, MODE, NightlyMode, RunState, Scope, checked_in
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import Run
from seamline.sync.cut import published_by, require_staged, staged_in
from seamline_airflow import deadline, parts
from seamline_airflow.errors import task_errors
from seamline_airflow.expectations import TABLE_VERDICTS

# The alarm about a cut that is not published as it is. It ends when a take of the date is.
NOT_CLEAN = AlarmKind.CUT_NOT_CLEAN
_APPROVED = "Approve"


@dataclass(frozen=True, slots=True)
class Question:
    """What the gate judged: a fingerprint of the staged cut and of what was checked, what is not clean in each
    destination, and when. A destination of which nothing is known is not in it: nobody can sign for that."""

    subject: str
    lines_in: Mapping[str, tuple[str, ...]]
    asked_at: str

    @staticmethod
    def of(run: Run, lines_in: Mapping[str, Sequence[str]]) -> "Question":
        lines = {name: tuple(lines) for name, lines in lines_in.items()}
        return Question(_subject(run), lines, datetime.now(UTC).isoformat())

    @staticmethod
    def left_by_gate(run: Run) -> "Question":
        """GateFailed where the gate has not judged what is staged now."""
        left = run.result.get(GATE)
        if left is None or left.get("subject") != _subject(run) or "destinations" not in left:
            raise GateFailed(
                f"the gate has not judged the cut of {run.business_date} that is staged now",
                hint="clear the task `gate` with those after it",
                sync=run.sync,
            )
        lines_in = {name: tuple(lines) for name, lines in left["destinations"].items()}
        return Question(left["subject"], lines_in, left["asked_at"])

    @property
    def lines(self) -> tuple[str, ...]:
        return tuple(line for lines in self.lines_in.values() for line in lines)

    @property
    def clean(self) -> tuple[str, ...]:
        """The destinations whose cut nobody has to be asked about."""
        return tuple(name for name, lines in self.lines_in.items() if not lines)

    @property
    def waiting(self) -> tuple[str, ...]:
        """The destinations whose cut is not published as it is."""
        return tuple(name for name, lines in self.lines_in.items() if lines)

    def to_json(self) -> dict[str, Any]:
        return {
            "subject": self.subject,
            "lines": list(self.lines),
            "destinations": {name: list(lines) for name, lines in self.lines_in.items()},
            "asked_at": self.asked_at,
        }

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
    """Who answered."""
    user = answer.get("responded_by_user") or {}
    return person_of(user.get("name") or user.get("id")) or "somebody"


def _subject(run: Run) -> str:
    judged = {key: run.result.get(key) for key in ("cut", EXPECTATIONS)}
    return hashlib.sha256(json.dumps(judged, sort_keys=True).encode()).hexdigest()


class GateOperator(BaseBranchOperator):
    """What is clean goes on to `publish`. Of the rest `on_break` decides: ask, fail, or publish_and_flag.

    A run that compares only ends here, red where it is not clean.

    Fails closed: of a destination without a saved reconciliation of this run's cut, or with no table compared, nobody
    is even asked. Where that is so of all, the run ends here.
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, on_break: str, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.on_break = on_break

    def choose_branch(self, context: Any) -> str | list[str] | None:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            question = Question.of(run, self._judged(run, store))
            store.put_result(run.run_id, GATE, question.to_json())
            store.put_result(run.run_id, DECISION, None)
            if compares_only(run):
                return self._end_here(run, store, question)
            is_let_through = not question.waiting or self.on_break == "publish_and_flag"
            self._say(run, store, () if is_let_through else question.waiting, question)
            return "publish" if is_let_through else self._hold_back(run, question)

    def _judged(self, run: Run, store: Any) -> Mapping[str, Sequence[str]]:
        """What is not clean in each destination; of those that are published already only where none waits. Raises
        GateFailed where nothing is known of any."""
        judged: dict[str, Sequence[str]] = {}
        unknown: list[GateFailed] = []
        published = published_by(run, store.cuts(run.sync, run.business_date))
        for destination in [one for one in staged_in(run) if one.name not in published] or staged_in(run):
            try:
                judged[destination.name] = tuple(_blemishes(run, destination.name, store))
            except GateFailed as trouble:
                unknown.append(trouble)
                self.log.error("%s", trouble)
        if unknown and not judged:
            text = "; ".join(f"{one.message}; {one.hint}" for one in unknown)
            if not compares_only(run):
                store.raise_alarm(NOT_CLEAN, deadline.subject(run.sync, run.business_date), text)
            raise unknown[0]
        for line in (line for lines in judged.values() for line in lines):
            self.log.warning("%s", line)
        return judged

    def _say(self, run: Run, store: Any, waiting: Sequence[str], question: Question) -> None:
        """The alarm names each destination that has no cut of the date, and why: what is not clean, and what could not
        be made at all, as where a comparison was INCONCLUSIVE. Nobody is asked about the latter."""
        about = deadline.subject(run.sync, run.business_date)
        said = []
        if waiting:
            asked, refused = "a person has to decide about it", "it is not published, for `on_break` is `fail`"
            how = asked if self.on_break == "ask" else refused
            lines = [line for name in waiting for line in question.lines_in[name]]
            said.append(f"the cut of {run.business_date} is not clean, and {how}: {'; '.join(lines)}")
        there = published_by(run, store.cuts(run.sync, run.business_date))
        said += lacking(run, question, there)
        if said:
            store.raise_alarm(NOT_CLEAN, about, "; ".join(said))
        else:
            store.end_alarm(NOT_CLEAN, about)

    def _hold_back(self, run: Run, question: Question) -> str | list[str]:
        """Only the cuts that are not clean: the others are published meanwhile."""
        branches = (["publish"] if question.clean else []) + (["approve"] if self.on_break == "ask" else [])
        if not branches:
            raise GateFailed(
                f"the cut of {run.business_date} is not published: {'; '.join(question.lines)}",
                hint="on_break is `fail`: mend the cause, then run this date again",
                sync=run.sync,
            )
        return branches[0] if len(branches) == 1 else branches

    def _end_here(self, run: Run, store: Any, question: Question) -> None:
        """Nothing was to be published, so nothing of the date changes, its alarm neither."""
        if question.waiting:
            raise GateFailed(
                f"compared only, and not clean: {'; '.join(question.lines)}",
                hint="nothing was to be published; the report of the date shows the rows",
                sync=run.sync,
            )
        for destination in run.plan.destinations:
            require_staged(run, destination.name)
            # Where nothing is known of it this is raised once more.
            tuple(_blemishes(run, destination.name, store))
        store.finish_run(run.run_id, state=RunState.SUCCEEDED)
        self.log.info("compared only, as asked: all is clean, and nothing is published")


def lacking(run: Run, question: Question, there: Collection[str]) -> Iterator[str]:
    """Why a destination has no cut that could be judged, and what to do; of each that has none. `there`: those in which
    this run has published already."""
    for destination in (one for one in run.taking.plan.destinations if one.name not in there):
        try:
            require_staged(run, destination.name)
        except GateFailed as missing:
            yield missing.message if "To mend it" in missing.message else f"{missing.message}; {missing.hint}"
            continue
        if destination.name not in question.lines_in:
            yield (
                f"the cut of {run.business_date} in {destination.name} was not judged: the log of the task `gate` says"
                " why; mend that, then run this date again"
            )


def compares_only(run: Run) -> bool:
    return bool(run.result.get(MODE) == NightlyMode.COMPARE_ONLY)


def _blemishes(run: Run, destination: str, store: Any) -> Iterator[str]:
    """What is not clean, a line each; names and counts only. Raises GateFailed where nothing is known."""
    found = store.reconciliation(run.run_id, Scope.CUT, destination)
    compared = [table for table in found.tables if table.verdict is not Verdict.NOT_RUN] if found else []
    if not compared:
        raise GateFailed(
            f"the cut of {run.business_date} for {destination} was not reconciled",
            hint="run the task `cut` again",
            sync=run.sync,
        )
    wrong = [one for one in (found.tables if found else ()) if one.verdict is not Verdict.MATCH and not one.is_left_out]
    yield from (f"{destination}: {line}" for line in _differing(wrong))
    yield from _unmet(run, destination, but_of=TABLE_VERDICTS if wrong else "")


def _differing(tables: Sequence[TableVerdict]) -> Iterator[str]:
    """What is the same of several tables is said once, with their names."""
    named: dict[str, list[str]] = {}
    for table in tables:
        breaks = [counted(table.breaks_total, "break")] if table.breaks_total else []
        said = ", ".join([*breaks, *([table.reason] if table.reason else [])]) or "no reason was given"
        named.setdefault(f"{table.verdict}: {said}", []).append(table.table)
    yield from (f"{', '.join(names)} {said}" for said, names in named.items())


def _unmet(run: Run, destination: str, *, but_of: str = "") -> Iterator[str]:
    """`but_of`: the batch whose rules say what was said already."""
    checked = checked_in(run.result, destination)
    if not checked:
        raise GateFailed(
            f"the expectations of {destination} left no result",
            hint="run the task `expectations` again",
            sync=run.sync,
        )
    if checked["verdict"] == Verdict.NOT_RUN:
        why = "".join(f": {failed['detail']}" for failed in checked["failed"][:1] if failed["detail"])
        raise GateFailed(
            f"the expectations of {destination} were not evaluated{why}",
            hint="clear the task `expectations` with those after it",
            sync=run.sync,
        )
    for failed in (one for one in checked["failed"] if one["on"] != but_of):
        detail = f" ({failed['detail']})" if failed["detail"] else ""
        yield f"{destination}: {failed['on']}: not met: {failed['why']}{detail}"
