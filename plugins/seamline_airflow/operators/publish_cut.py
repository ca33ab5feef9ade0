"""The publication of a cut: in each destination as soon as it may be, whatever becomes of it in the others."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow.sdk.exceptions import AirflowException, AirflowSkipException

from seamline.domain.errors import CommitUnknown, GateFailed, InvariantViolated, SeamlineError, TransientError
from seamline.domain.runs import NOT_PUBLISHED, NOT_PUBLISHED_CURES, PUBLISH, NightlyMode, RunState
from seamline.plan.model import Run
from seamline.sync.cut import published_by, require_staged, staged_in
from seamline_airflow import deadline, parts
from seamline_airflow.errors import task_errors
from seamline_airflow.operators.gate import NOT_CLEAN, Question, compares_only, lacking
from seamline_airflow.operators.step import StepOperator
from seamline_airflow.others_go_on import ends_task, is_last_try


class PublishCutOperator(StepOperator):
    """Publish the staged cut of the date in every destination where it may be published now, and report it as the
    partition of the cut's asset.

    One that cannot be written keeps no other waiting: it is left to `publish_rest`. So where a person is asked about
    others this task is skipped instead of failing: a failed one would keep what is signed for from being published.
    """

    def execute(self, context: Any) -> Any:
        try:
            return super().execute(context)
        except AirflowSkipException:
            raise
        except AirflowException as exc:
            if not (ends_task(exc, context) and self._leaves_it_to_the_rest()):
                raise
            raise AirflowSkipException(f"left to publish_rest: {exc}") from exc

    def _leaves_it_to_the_rest(self) -> bool:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            # What ended all, as a bug of ours does, names no destination.
            return bool(run.result.get(NOT_PUBLISHED)) and _is_asked(run, Question.left_by_gate(run))

    def step(self, context: Any, store: Any) -> Mapping[str, int]:
        run = store.run(self.run)
        if compares_only(run):
            raise GateFailed(
                f"run {run.run_id} compares only: it publishes nothing",
                hint=f"trigger the date again with the mode `{NightlyMode.PUBLISH}`",
                sync=run.sync,
            )
        return self._publish(context, store, run, Question.left_by_gate(run))

    def _publish(self, context: Any, store: Any, run: Run, question: Question) -> Mapping[str, int]:
        # Beside what is clean nobody has answered yet: an answer that is there was given to an earlier question.
        signature = "" if question.clean else _signature(context, question)
        names = _ready(run, question, signature)
        if not names:
            raise GateFailed(
                f"the cut of {run.business_date} is not published: {'; '.join(question.lines)}",
                hint="nobody has signed for it; clear the task `gate` with those after it to ask again",
                sync=run.sync,
            )
        # Of a run whose task is cleared because one destination has missed it the others have theirs.
        before = published_by(run, store.cuts(run.sync, run.business_date))
        # Before the commit: whoever clears this run after a crash in between must get a new name.
        store.put_result(run.run_id, PUBLISH, before)
        versions, failed = self._publish_in(names, store, run, question, signature)
        self._write_down(context, store, run, question, versions, before)
        passing = [error for error in failed.values() if isinstance(error, TransientError | CommitUnknown)]
        if passing and _is_asked(run, question) and not is_last_try(context):
            # `publish_rest` comes behind the answer, a day later or never.
            raise passing[0]
        return versions

    def _publish_in(
        self, names: Sequence[str], store: Any, run: Run, question: Question, signature: str
    ) -> tuple[dict[str, int], dict[str, SeamlineError]]:
        """The versions, and why there is none. Raises the first error where nothing could be published."""
        from seamline.sync.cut import publish_cut

        versions: dict[str, int] = {}
        failed: dict[str, SeamlineError] = {}
        store.put_result(run.run_id, NOT_PUBLISHED, {})
        for name in names:
            # A signature is for what was asked about, and for nothing else.
            signed_by = signature if name in question.waiting else ""
            try:
                with parts.cut_publisher(run.plan, name) as publisher:
                    cut = publish_cut(run, name, publisher=publisher, records=store, signed_by=signed_by)
            except InvariantViolated:
                raise
            except SeamlineError as exc:
                failed[name] = exc
                self.log.error("%s: %s", name, exc)
                continue
            versions[name] = cut.version
            self.log.info("cut of %s, version %d, %s in %s", cut.business_date, cut.version, cut.verdict, name)
        store.put_result(run.run_id, NOT_PUBLISHED_CURES, {name: error.hint for name, error in failed.items()})
        store.put_result(run.run_id, NOT_PUBLISHED, {name: error.message for name, error in failed.items()})
        if not versions:
            raise next(iter(failed.values()))
        return versions, failed

    def _write_down(
        self,
        context: Any,
        store: Any,
        run: Run,
        question: Question,
        versions: Mapping[str, int],
        before: Mapping[str, int],
    ) -> None:
        """`before`: what an earlier task of this run, or an earlier try, has published."""
        there = {**before, **versions}
        store.put_result(run.run_id, PUBLISH, there)
        if all(one.name in there for one in run.taking.plan.destinations):
            store.finish_run(run.run_id, state=RunState.SUCCEEDED)
        if all(name in there for name in question.waiting) and not any(lacking(run, question, there)):
            store.end_alarm(NOT_CLEAN, deadline.subject(run.sync, run.business_date))
        self._anchor()
        for asset in self.outlets:
            event = context["outlet_events"][asset]
            event.extra = {"run": run.run_id, "versions": dict(versions)}
            # A run that was started with the form's date has no partition key of its own.
            event.add_partitions(str(run.business_date))

    def _anchor(self) -> None:
        """What is published stays so: maintenance anchors the log within the hour, and is red where it cannot."""
        try:
            self.log.info("%s", parts.anchor_audit())
        except SeamlineError as exc:
            self.log.warning("the log of acts is not anchored now: %s", exc)


class PublishRestOperator(PublishCutOperator):
    """Publish the cut in the destinations that had to wait: for a person, or because they did not answer. Skipped where
    none has."""

    def _leaves_it_to_the_rest(self) -> bool:
        return False

    def _publish(self, context: Any, store: Any, run: Run, question: Question) -> Mapping[str, int]:
        signature = _signature(context, question)
        before = dict(run.result.get(PUBLISH) or {})
        names = [name for name in _ready(run, question, signature) if name not in before]
        if not names:
            raise AirflowSkipException("nothing has waited that may be published now")
        store.put_result(run.run_id, PUBLISH, before)
        versions, failed = self._publish_in(names, store, run, question, signature)
        self._write_down(context, store, run, question, versions, before)
        return versions


class CompleteCutOperator(StepOperator):
    """Red where a destination that takes the cut has none of the date. It comes last, so that it keeps no other one
    waiting."""

    def step(self, context: Any, store: Any) -> None:
        run = store.run(self.run)
        published = run.result.get(PUBLISH) or {}
        missing = [one.name for one in run.taking.plan.destinations if one.name not in published]
        for line in (lines := [_why_missing(run, name) for name in missing]):
            self.log.error("%s", line)
        if lines:
            raise GateFailed(
                "; ".join(lines),
                hint="the other destinations have theirs; mend the cause, then run this date again",
                sync=run.sync,
            )


def _is_asked(run: Run, question: Question) -> bool:
    """Whether a person is asked about some destinations while others are published."""
    return run.plan.reconcile.on_break == "ask" and bool(question.clean) and bool(question.waiting)


def _signature(context: Any, question: Question) -> str:
    return question.signature(context["ti"].xcom_pull(task_ids="approve"))


def _ready(run: Run, question: Question, signature: str) -> tuple[str, ...]:
    """The destinations whose cut may be published now: clean, signed for, or flagged."""
    is_let_through = bool(signature) or run.plan.reconcile.on_break == "publish_and_flag"
    held = () if is_let_through else question.waiting
    return tuple(one.name for one in staged_in(run) if one.name in question.lines_in and one.name not in held)


def _why_missing(run: Run, destination: str) -> str:
    try:
        require_staged(run, destination)
    except GateFailed as missing:
        return missing.message
    question = Question.left_by_gate(run)
    if lines := question.lines_in.get(destination, ()):
        why = "it is not clean, and nobody has signed for it: " + "; ".join(lines)
    else:
        why = (run.result.get(NOT_PUBLISHED) or {}).get(destination) or "its checks did not run: see `expectations`"
    return f"{destination} has no cut of {run.business_date}: {why}"
