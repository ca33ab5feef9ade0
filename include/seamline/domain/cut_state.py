"""The one state of a cut: what was compared, what the checks say, what a person decided, and what readers see.

Page, exports and `status` all show this value. Its headline is the worst of the four, so that no report of a cut reads
better than another. Pure.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, tzinfo
from enum import StrEnum
from typing import Any

from seamline.domain.calendar import moment_in_words
from seamline.domain.day_closed import WaitsForInput, waits_for_input
from seamline.domain.decision import DECISION, Decision, DecisionState, decision_from_json
from seamline.domain.doubted import doubted
from seamline.domain.level import achieved_in_words
from seamline.domain.phrase import joined, phrase
from seamline.domain.recorded import Recorded, cure_of_take
from seamline.domain.runs import (
    FAILURE,
    MODE,
    NOT_PUBLISHED,
    NOT_PUBLISHED_CURES,
    ONLY_TABLES,
    PUBLISH,
    Cut,
    NightlyMode,
    Reconciliation,
    RunState,
    checked_in,
)
from seamline.domain.verdict import Verdict, of_cut, of_guaranteed


class Headline(StrEnum):
    """One word for a cut, the best first. MATCH is said only of a cut that is whole, clean and published."""

    MATCH = "MATCH"
    PARTIAL = "PARTIAL"  # clean and published, and some tables are left out for a reason
    RUNNING = "RUNNING"
    WAITING = "WAITING"  # a person has to decide
    NOT_PUBLISHED = "NOT PUBLISHED"
    REJECTED = "REJECTED"
    NOT_RUN = "NOT_RUN"
    INCONCLUSIVE = "INCONCLUSIVE"
    CHECKS_FAILED = "CHECKS FAILED"
    BREAK = "BREAK"
    ALTERED = "ALTERED"  # what is stored is not what was recorded, so nobody knows what is true of the cut
    FAILED = "FAILED"  # of a run that was to put tables in place, never of a cut


_SEVERITY = tuple(Headline)
# Tasks of a nightly run that come behind the publication in one destination, and are about the others.
_ABOUT_THE_REST = ("approve", "publish_rest", "complete")
# These report the first of their errors, and each destination has its own.
_PUBLISHING = ("publish", "publish_rest")


def worst_headline(words: Iterable[Headline]) -> Headline:
    """Of at least one."""
    return max(words, key=_SEVERITY.index)


_LETS_NOTHING_THROUGH = {
    DecisionState.WAITING: Headline.WAITING,
    DecisionState.REJECTED: Headline.REJECTED,
    DecisionState.EXPIRED: Headline.NOT_PUBLISHED,
}
_NOT_PUBLISHED_FOR = {
    DecisionState.WAITING: phrase("it waits for a decision"),
    DecisionState.REJECTED: phrase("it was rejected"),
    DecisionState.EXPIRED: phrase("nobody decided in time"),
}


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """`on`: the batch that was checked. `rows`: how many rows break the rule, None where that is not known. `keys`: of
    some of them, canonical texts."""

    on: str
    type: str
    why: str
    detail: str = ""
    rows: int | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Checks:
    """Of Great Expectations, and the declared rules. `checked` is how many were evaluated; None: they have not run.
    `notes`: what must be said of some that did not fail."""

    checked: int | None = None
    failed: tuple[FailedCheck, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def word(self) -> str:
        if self.checked is None:
            return phrase("not run")
        return phrase("failed") if self.failed else phrase("passed")


@dataclass(frozen=True, slots=True)
class Failure:
    """The task that ended the run."""

    task: str
    error: str
    cure: str = ""
    at: datetime | None = None

    def lines(self, zone: tzinfo = UTC) -> list[str]:
        cure = [phrase("to mend it: %(cure)s", cure=self.cure)] if self.cure else []
        at = _at(self.at, zone)
        return [phrase("task %(task)s failed%(at)s: %(error)s", task=self.task, at=at, error=self.error), *cure]


@dataclass(frozen=True, slots=True)
class Publication:
    """`version` of this run; None: it published nothing, and `why_not` says why. `in_force`: the version of this date
    that readers see, by whatever run; None if there is none. `in_force_is`: what that one was found to be."""

    version: int | None = None
    at: datetime | None = None
    in_force: int | None = None
    why_not: str = ""
    in_force_is: Headline = Headline.MATCH

    def in_words(self, zone: tzinfo = UTC) -> str:
        if self.version is not None:
            since = self._since(self.version)
            at = _at(self.at, zone)
            return phrase("published as version %(version)s%(at)s%(since)s", version=self.version, at=at, since=since)
        still = (
            phrase("; version %(version)s stays in force", version=self.in_force) if self.in_force is not None else ""
        )
        is_said = still and self.in_force_is is not Headline.MATCH
        but = phrase(", which is %(word)s", word=self.in_force_is.value) if is_said else ""
        return phrase("not published: %(why)s%(still)s%(but)s", why=self.why_not, still=still, but=but)

    def _since(self, version: int) -> str:
        """What has become of it. A version that has expired is not on the list of cuts any more."""
        if self.in_force is None or self.in_force < version:
            return phrase(", which has expired since")
        return phrase(", superseded by version %(version)s", version=self.in_force) if self.in_force > version else ""


@dataclass(frozen=True, slots=True)
class CutState:
    """The state of one take of a cut in one destination. `found` is None where nothing was compared. `input`: of the
    source, which the run waits, or has waited in vain, for. `recorded`: what the log of acts has of it, None where
    nobody has looked."""

    run_id: str
    sync: str
    destination: str
    business_date: date
    compared: Verdict
    checks: Checks
    decision: Decision | None
    publication: Publication
    partial: bool = False
    is_running: bool = False
    is_compare_only: bool = False
    failure: Failure | None = None
    found: Reconciliation | None = None
    input: WaitsForInput | None = None
    recorded: Recorded | None = field(default=None, compare=False)

    @property
    def headline(self) -> Headline:
        return worst_headline([*self._words(), *self._words_of_the_version()])

    @property
    def shown(self) -> Headline:
        """What stands above this take. While it runs the version that readers see meanwhile has a line of its own; in
        `headline` it counts."""
        return worst_headline(self._words()) if self.is_running else self.headline

    @property
    def compared_in_words(self) -> str:
        return Headline.RUNNING.value if self._is_early else self.compared.value

    @property
    def _is_early(self) -> bool:
        return self.compared is Verdict.NOT_RUN and self.is_running

    @property
    def is_green(self) -> bool:
        return self.headline in (Headline.MATCH, Headline.PARTIAL)

    @property
    def is_waiting(self) -> bool:
        """Whether a person is asked, and has not answered yet."""
        return self.is_running and self.decision is not None and self.decision.state is DecisionState.WAITING

    @property
    def is_open(self) -> bool:
        """Whether it is not clean, and nobody has signed for it as it is published. Nobody has signed for what is not
        stored as it was recorded."""
        is_let_through = bool(self.signed_by) and self.publication.version is not None
        return self.is_altered or not (self.is_green or is_let_through)

    @property
    def is_altered(self) -> bool:
        """Whether it is known not to be stored as it was recorded."""
        return bool(self.recorded and self.recorded.faults)

    @property
    def altered_in_words(self) -> list[str]:
        """What stands before all else that is said of it; nothing where it is stored as it was recorded."""
        return list(self.recorded.lines(cure_of_take(self.sync))) if self.recorded else []

    @property
    def level_in_words(self) -> str | None:
        """For which tables it shows the level of its destination; None where the run kept nothing of it."""
        said = achieved_in_words(self.found)
        if said is not None and said != "no" and self.publication.version is None:
            return phrase("no, for it has published nothing")
        if not self.partial or self.found is None or self.found.is_partial or said != "yes":
            return said
        return phrase("for the tables of this run (%(number)s), and for no other", number=len(self.found.tables))

    @property
    def signed_by(self) -> str:
        """Who let this cut be published though it is not clean, and why; "" where nobody did."""
        if self.decision is None or self.decision.state is not DecisionState.APPROVED:
            return ""
        return f"{self.decision.who or 'somebody'}: {self.decision.reason}"

    def _words(self) -> list[Headline]:
        words = [Headline.PARTIAL if self.partial else Headline.MATCH]
        if self.is_altered:
            words.append(Headline.ALTERED)
        if self.compared is not Verdict.MATCH:
            words.append(Headline.RUNNING if self._is_early else Headline(self.compared.value))
        if self.checks.failed:
            words.append(Headline.CHECKS_FAILED)
        elif self.checks.checked is None and not self.is_running:
            words.append(Headline.NOT_RUN)
        if self.decision is not None and self.decision.state in _LETS_NOTHING_THROUGH:
            words.append(_LETS_NOTHING_THROUGH[self.decision.state])
        if self.is_running:
            words.append(Headline.RUNNING)
        elif self.publication.version is None and not self._leaves_a_version():
            words.append(Headline.NOT_PUBLISHED)
        return words

    def _words_of_the_version(self) -> list[Headline]:
        """Readers see the version in force meanwhile: another run makes it no better."""
        return [self.publication.in_force_is] if self.is_running or self._leaves_a_version() else []

    def _leaves_a_version(self) -> bool:
        """A run that was only to compare takes nothing from the version that readers see."""
        return self.is_compare_only and self.publication.version is None and self.publication.in_force is not None

    def lines(self, zone: tzinfo = UTC) -> list[str]:
        """The four parts and what ended the run, in words, in the order in which they come about."""
        word = Headline.RUNNING if self._is_early else self.compared
        compared: str = phrase("compared: %(word)s", word=word)
        if self.found is None and not self.is_running:
            compared = joined(", ", [compared, self._why_not_run("cut")])
        out: list[str] = [*self.altered_in_words, compared, self._checks_in_words()]
        out += [self.decision_in_words(zone), self.publication.in_words(zone)]
        return out + (self.failure.lines(zone) if self.failure else [])

    def decision_in_words(self, zone: tzinfo = UTC) -> str:
        if self.decision is not None:
            return self.decision.in_words(zone)
        is_open = self.is_running and self.publication.version is None
        return phrase("not known yet whether somebody must decide") if is_open else phrase("no decision needed")

    def _why_not_run(self, task: str) -> str:
        """Why a stage of an ended run has left nothing for this destination, and what lets it run."""
        if self.failure is not None and self.failure.task == task:
            return phrase("for its task `%(task)s` failed", task=task)
        if self.failure is not None and self.failure.task not in _ABOUT_THE_REST:
            return phrase("for the task `%(failed)s` failed before it", failed=self.failure.task)
        return phrase("for its task `%(task)s` has left nothing here: run the date again", task=task)

    def _checks_in_words(self) -> str:
        if not self.checks.failed:
            number = f" ({self.checks.checked})" if self.checks.checked else ""
            said: str = phrase("checks %(word)s%(number)s", word=self.checks.word, number=number)
            if self.checks.checked is None and not self.is_running:
                said = joined(", ", [said, self._why_not_run("expectations")])
            return joined("; ", [said, *self.checks.notes])
        found = joined("; ", [*map(check_in_words, self.checks.failed), *self.checks.notes])
        return phrase("checks failed: %(found)s", found=found)


def check_in_words(one: FailedCheck) -> str:
    keys: str = phrase(", for example %(keys)s", keys=", ".join(one.keys)) if one.keys else ""
    rows = (
        ""
        if one.rows is None
        else phrase(", 1 row")
        if one.rows == 1
        else phrase(", %(rows)s rows", rows=f"{one.rows:,}")
    )
    return joined("", [f"{one.on}: {one.why}", *([rows, keys] if rows or keys else [f" ({one.detail})"])])


def state_of_cut(
    *,
    run_id: str,
    sync: str,
    destination: str,
    business_date: date,
    run_state: RunState,
    result: Mapping[str, Any],
    found: Reconciliation | None,
    published: Cut | None,
    in_force: Cut | None,
    in_force_found: Reconciliation | None = None,
    recorded: Recorded | None = None,
    in_force_recorded: Recorded | None = None,
) -> CutState:
    """What run `run_id` left in one destination. `result` is the run's; `published` its version there, `in_force` that
    which readers see, `in_force_found` what was compared for that one. `recorded`, `in_force_recorded`: what the log of
    acts has of both, where somebody has looked."""
    if found is not None and recorded is not None and recorded.faults:
        found = doubted(found)
    version = published.version if published else (result.get(PUBLISH) or {}).get(destination)
    decision, failure = _decision(result, found, destination), _failure_in(result, destination)
    if version is not None and failure is not None and failure.task in _ABOUT_THE_REST:
        failure = None
    is_running = run_state is RunState.RUNNING and failure is None and version is None
    is_compare_only = result.get(MODE) == NightlyMode.COMPARE_ONLY
    tables = found.tables if found else ()
    return CutState(
        run_id=run_id,
        sync=sync,
        destination=destination,
        business_date=business_date,
        compared=of_cut(tables),
        checks=_checks(checked_in(result, destination)),
        decision=decision,
        publication=Publication(
            version=version,
            at=published.saved_at if published else None,
            in_force=in_force.version if in_force else None,
            in_force_is=_as_published(in_force, in_force_found, in_force_recorded) if in_force else Headline.MATCH,
            why_not=""
            if version is not None
            else _why_not(result, destination, decision, failure, is_running=is_running),
        ),
        partial=bool(found and found.is_partial) or bool(result.get(ONLY_TABLES)),
        is_running=is_running,
        is_compare_only=is_compare_only,
        failure=failure,
        found=found,
        input=waits_for_input(result),
        recorded=recorded,
    )


def has_verdict(states: Sequence[CutState]) -> bool:
    """Whether a take of a business date has one: `states` are those of it, in each destination. While a date is taken
    again the version in force has the verdict of before. INCONCLUSIVE is none, and neither is a cut of which nothing
    could be compared: the date is missed at its hour as if its run had not begun. Where a person is asked about it, it
    is that person's matter."""
    return bool(states) and all(
        one.compared in (Verdict.MATCH, Verdict.BREAK) or one.publication.in_force is not None or one.is_waiting
        for one in states
    )


def of_live(found: Reconciliation) -> Headline:
    """The headline of a comparison of live tables. Parked tables make it partial, and are no blemish of the others."""
    if found.is_altered:
        return Headline.ALTERED
    verdict = of_guaranteed(found.tables)
    return Headline.PARTIAL if verdict is Verdict.MATCH and found.is_partial else Headline(verdict.value)


def newest_of_live(found: Iterable[Reconciliation]) -> list[Reconciliation]:
    """Of each destination the newest comparison of its live tables; where that one has no answer, behind it the newest
    that has one: a BREAK that was found stands until another comparison answers. One that is ALTERED in between, too:
    nobody knows what it had found. `found`: the newest first."""
    newest: dict[str, list[Reconciliation]] = {}
    for one in found:
        of_destination = newest.setdefault(one.destination, [])
        is_answered = any(map(_is_answer, of_destination))
        if not of_destination or (not is_answered and (_is_answer(one) or one.is_altered)):
            of_destination.append(one)
    return [one for of_destination in newest.values() for one in of_destination]


def _is_answer(found: Reconciliation) -> bool:
    return of_live(found) not in (Headline.NOT_RUN, Headline.INCONCLUSIVE, Headline.ALTERED)


def _as_published(cut: Cut, found: Reconciliation | None, recorded: Recorded | None) -> Headline:
    """Of a version, with its checks: they count in its verdict."""
    if recorded is not None and recorded.faults:
        return Headline.ALTERED
    if cut.verdict is Verdict.MATCH:
        return Headline.PARTIAL if cut.partial else Headline.MATCH
    is_compared_well = found is not None and of_cut(found.tables) is Verdict.MATCH
    return Headline.CHECKS_FAILED if is_compared_well else Headline(cut.verdict.value)


def _why_not(
    result: Mapping[str, Any],
    destination: str,
    decision: Decision | None,
    failure: Failure | None,
    *,
    is_running: bool,
) -> str:
    if decision is not None and decision.state in _NOT_PUBLISHED_FOR:
        return _NOT_PUBLISHED_FOR[decision.state]
    if failure is not None:
        return phrase("task %(task)s failed", task=failure.task)
    if (why := (result.get(NOT_PUBLISHED) or {}).get(destination)) is not None:
        return str(why)
    if result.get(MODE) == NightlyMode.COMPARE_ONLY:
        return phrase("it was to be compared only")
    return phrase("the run has not ended") if is_running else phrase("the run ended without it")


def _checks(left: Mapping[str, Any] | None) -> Checks:
    if not left:
        return Checks()
    failed = tuple(
        FailedCheck(
            one["on"], one["type"], one["why"], one["detail"], one.get("rows"), tuple(map(str, one.get("keys") or ()))
        )
        for one in left["failed"]
    )
    if not failed and left["verdict"] != Verdict.MATCH:
        # Nothing was evaluated: that is no success.
        return Checks()
    return Checks(left["checked"], failed, tuple(map(str, left.get("notes") or ())))


def _decision(result: Mapping[str, Any], found: Reconciliation | None, destination: str) -> Decision | None:
    if (left := decision_from_json(result.get(DECISION))) and left.is_about(destination):
        return left
    if found and found.signed_by:
        # Cuts that were signed before decisions were kept have the signature only.
        who, _, reason = found.signed_by.partition(": ")
        return Decision(DecisionState.APPROVED, "", who=who, reason=reason)
    return None


def _failure_in(result: Mapping[str, Any], destination: str) -> Failure | None:
    failure = failure_of(result)
    error = (result.get(NOT_PUBLISHED) or {}).get(destination)
    if failure is None or error is None or failure.task not in _PUBLISHING:
        return failure
    return replace(failure, error=str(error), cure=(result.get(NOT_PUBLISHED_CURES) or {}).get(destination, ""))


def failure_of(result: Mapping[str, Any]) -> Failure | None:
    """What ended a run, from its result."""
    left = result.get(FAILURE)
    return Failure(left["task"], left["error"], left.get("cure", ""), _moment(left.get("at"))) if left else None


def _at(value: datetime | None, zone: tzinfo) -> str:
    return phrase(" at %(moment)s", moment=moment_in_words(value, zone)) if value else ""


def _moment(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
