"""Results of expectations are entered for, and a signature kept with, the very verdict that the log of acts has."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.domain.audit import Kind, verdict_act, verdict_hash
from seamline.domain.errors import Refused
from seamline.domain.expectation_results import results_fault, with_results
from seamline.domain.runs import EXPECTATIONS, SIGNED_BY, Reconciliation, Scope
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.platform import checks
from seamline.platform.store import PlatformStore

AT = datetime(2026, 3, 2, tzinfo=UTC)
BREAK = Break("account", BreakType.VALUE, '["1"]', {"amount": "1"}, {"amount": "2"})
PASSED: dict[str, Any] = {"suite": "s", "verdict": "MATCH", "checked": 3, "failed": []}
FAILED = {**PASSED, "verdict": "BREAK", "failed": [{"on": "account"}]}


def verdict(destination: str, *breaks: Break) -> Reconciliation:
    word = Verdict.BREAK if breaks else Verdict.MATCH
    table = TableVerdict("account", word, breaks=breaks, breaks_total=len(breaks))
    return Reconciliation(
        "r1", "settlement", destination, Scope.CUT, date(2026, 3, 1), None, None, "read", word, (table,), AT, AT
    )


class Stored:
    """What a platform database holds of one run, and how its log goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *found: Reconciliation) -> None:
        self.found = {one.destination: one for one in found}
        self.log = [verdict_act(one, Kind.COMPARED) for one in found]
        self.result: dict[str, Any] = {}
        self.published: list[str] = []
        audit = SimpleNamespace(verdicts_of=self.verdicts_of, append=lambda _, act: self.log.append(act))
        monkeypatch.setattr(checks, "audit", audit)
        monkeypatch.setattr(checks, "reconciliations", SimpleNamespace(read=self.read))

    def verdicts_of(self, _session: Any, _run: str) -> dict[str, str]:
        return {act.subject.destination: str(act.document["hash"]) for act in self.log}

    def read(self, _session: Any, _condition: str, arguments: Any) -> tuple[Reconciliation, ...]:
        return tuple(one for one in self.found.values() if one.destination in arguments[1:] or len(arguments) == 1)

    def execute(self, query: str, arguments: tuple[Any, ...]) -> Any:
        if "jsonb_set" in query:
            before, self.result = self.result, {**self.result, EXPECTATIONS: arguments[2].obj}
            return SimpleNamespace(fetchone=lambda: (before, self.result))
        if "update reconciliation" in query:
            evidence, _, destination = arguments
            self.found[destination] = replace(self.found[destination], evidence=evidence.obj)
        return SimpleNamespace(fetchone=lambda: (self.result,), fetchall=lambda: [(one,) for one in self.published])

    def put(self, **left: Mapping[str, Any]) -> None:
        checks.set_results(self, "r1", {"destinations": left} if left else None)  # type: ignore[arg-type]

    def kinds(self) -> list[tuple[str, str]]:
        return [(act.kind.value, act.subject.destination) for act in self.log]


@pytest.fixture
def stored(monkeypatch: pytest.MonkeyPatch) -> Stored:
    return Stored(monkeypatch, verdict("warehouse", BREAK), verdict("archive"))


def test_results_of_a_verdict_that_was_changed_behind_the_log_are_refused_and_nothing_is_entered(
    stored: Stored,
) -> None:
    stored.found["warehouse"] = verdict("warehouse")
    with pytest.raises(Refused, match="of 2026-03-01 in warehouse is not the one that the log of acts has"):
        stored.put(warehouse=PASSED)
    assert stored.kinds() == [("compared", "warehouse"), ("compared", "archive")]


def test_results_are_taken_back_from_such_a_verdict_without_making_it_true(stored: Stored) -> None:
    stored.put(warehouse=FAILED, archive=PASSED)
    changed = stored.found["warehouse"] = replace(stored.found["warehouse"], verdict=Verdict.MATCH)
    stored.put()
    assert stored.kinds()[2:] == [("checked", "warehouse"), ("checked", "archive"), ("checked", "archive")]
    assert stored.found["warehouse"] == changed, "it stands as a fault until it is compared again"
    assert EXPECTATIONS not in stored.found["archive"].evidence


def test_a_published_verdict_without_results_of_its_own_keeps_its_hash_when_another_destination_is_checked(
    stored: Stored,
) -> None:
    stored.result = {EXPECTATIONS: {"destinations": {"archive": PASSED}}}
    stored.published = ["archive"]
    stored.put(warehouse=FAILED, archive=PASSED)
    assert stored.found["archive"].evidence == {}
    assert stored.kinds()[2:] == [("checked", "warehouse")]


def test_results_that_were_there_before_they_were_entered_are_entered_with_what_is_not_published(
    stored: Stored,
) -> None:
    stored.result = {EXPECTATIONS: {"destinations": {"archive": PASSED}}}
    stored.put(archive=PASSED)
    assert stored.kinds()[2:] == [("checked", "archive")]


@pytest.mark.parametrize("what", ["the results and what the verdict says", "what the verdict says is gone", "a break"])
def test_a_signature_is_not_kept_with_a_verdict_that_was_changed_meanwhile(stored: Stored, what: str) -> None:
    stored.put(warehouse=FAILED)
    seen = stored.found["warehouse"]
    left = {EXPECTATIONS: {"destinations": {"warehouse": PASSED}}}
    plant: dict[str, Callable[[], Reconciliation]] = {
        "the results and what the verdict says": lambda: with_results(seen, left),
        "what the verdict says is gone": lambda: with_results(seen, {}),
        "a break": lambda: replace(seen, tables=verdict("warehouse").tables),
    }
    stored.found["warehouse"], stored.result = plant[what](), left
    store = PlatformStore(SimpleNamespace(transact=lambda work: work(stored)))  # type: ignore[arg-type]
    for signed in (seen, stored.found["warehouse"]):
        with pytest.raises(Refused, match="is not the one that the log of acts has"):
            store.save_reconciliation(replace(signed, evidence={**signed.evidence, SIGNED_BY: "ann: known"}))
    with pytest.raises(Refused, match="is not the one that the log of acts has"):
        store.require_as_entered(stored.found["warehouse"])


def test_a_signature_is_kept_with_the_verdict_that_was_published_and_no_newer_one(stored: Stored) -> None:
    signed = replace(stored.found["warehouse"], evidence={SIGNED_BY: "ann: known"})
    checks.require_signable(stored, signed)  # type: ignore[arg-type]
    stored.put(warehouse=FAILED)
    with pytest.raises(Refused, match="is another one than the one that was published with a signature"):
        checks.require_signable(stored, signed)  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", [7, [], {"destinations": []}, {"destinations": {"warehouse": ["x"]}}])
def test_results_of_no_known_form_are_missing_and_end_nothing_in_a_traceback(stored: Stored, bad: object) -> None:
    stored.put(warehouse=FAILED)
    stored.result = {EXPECTATIONS: bad}
    found = stored.found["warehouse"]
    assert results_fault(found, stored.result) == "the results of its expectations are missing"
    assert checks.left(stored, found) is None  # type: ignore[arg-type]
    stored.put(warehouse=PASSED)
    assert checks.fault(stored, stored.found["warehouse"]) == ""  # type: ignore[arg-type]
    assert stored.verdicts_of(None, "r1")["warehouse"] == verdict_hash(stored.found["warehouse"])
