"""A verdict that was changed before its results or a signature were entered: both verifiers name the entry, by the log
alone, because the newest entry says what is stored."""

import json
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.audit import Kind, canonical_json, verdict_act
from seamline.domain.expectation_results import with_results
from seamline.domain.runs import EXPECTATIONS, Reconciliation, Scope
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.platform import audit_check
from seamline.platform.verify_evidence import Evidence

AT = datetime(2026, 3, 2, tzinfo=UTC)
BREAK = Break("account", BreakType.VALUE, '["1"]', {"amount": "1"}, {"amount": "2"})
TABLE = TableVerdict("account", Verdict.BREAK, breaks=(BREAK,), breaks_total=1)
HONEST = Reconciliation(
    "r1", "settlement", "warehouse", Scope.CUT, date(2026, 3, 1), None, None, "read", Verdict.BREAK, (TABLE,), AT, AT
)
CHANGED = replace(HONEST, tables=(replace(TABLE, breaks=(), breaks_total=0),))


def left(verdict: str) -> dict[str, Any]:
    return {EXPECTATIONS: {"suite": "s", "verdict": verdict, "checked": 1, "failed": []}}


CHECKED = with_results(HONEST, left("BREAK"))
ENTERED: dict[str, tuple[list[tuple[Reconciliation, Kind]], str]] = {
    "as it is meant": ([(HONEST, Kind.COMPARED), (CHECKED, Kind.CHECKED), (CHECKED, Kind.SIGNATURE_KEPT)], ""),
    "compared again": ([(HONEST, Kind.COMPARED), (CHECKED, Kind.CHECKED), (CHANGED, Kind.COMPARED)], ""),
    "checked again": (
        [(HONEST, Kind.COMPARED), (CHECKED, Kind.CHECKED), (with_results(HONEST, left("MATCH")), Kind.CHECKED)],
        "",
    ),
    "breaks before the checks": (
        [(HONEST, Kind.VERDICT_ADOPTED), (with_results(CHANGED, left("MATCH")), Kind.CHECKED)],
        "table account was changed between entry 1 (verdict adopted) and entry 2 (checked), which compared nothing",
    ),
    "a table before the checks": (
        [(HONEST, Kind.COMPARED), (replace(CHECKED, tables=()), Kind.CHECKED)],
        "table account was changed between entry 1 (compared) and entry 2 (checked), which compared nothing",
    ),
    "the verdict before the checks": (
        [(HONEST, Kind.COMPARED), (replace(CHECKED, verdict=Verdict.MATCH), Kind.CHECKED)],
        "the verdict was changed between entry 1 (compared) and entry 2 (checked), which compared nothing",
    ),
    "results before the signature": (
        [(CHECKED, Kind.CHECKED), (with_results(HONEST, left("MATCH")), Kind.SIGNATURE_KEPT)],
        "what its expectations said was changed between entry 1 (checked) and entry 2 (signature kept), which compared"
        " nothing",
    ),
}


@pytest.mark.parametrize("what", ENTERED)
def test_audit_verify_names_an_entry_that_took_up_a_changed_verdict(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered, fault = ENTERED[what]
    rows: list[dict[str, Any]] = []
    for number, (found, kind) in enumerate(entered, start=1):
        before = rows[-1] if rows else {"number": None, "kind": None, "document": None}
        rows.append({
            "sync": "settlement", "destination": "warehouse", "business_date": HONEST.business_date, "run_id": "r1",
            "scope": "cut", "number": number, "kind": kind.value,
            "document": canonical_json(verdict_act(found, kind).document), "number_before": before["number"],
            "kind_before": before["kind"], "before": before["document"],
        })  # fmt: skip
    monkeypatch.setattr(audit_check, "_stored", lambda *_: iter(rows))
    found = audit_check._entered(None, "", {})  # type: ignore[arg-type]
    assert [(row["run_id"], wrong) for row, wrong in found] == ([("r1", fault)] if fault else [])


@pytest.mark.parametrize("what", ENTERED)
def test_the_verifier_of_exported_evidence_names_it_too(what: str, tmp_path: Path) -> None:
    entered, fault = ENTERED[what]
    (tmp_path / "head.json").write_text("{}", encoding="utf-8")
    evidence = Evidence(tmp_path)
    for number, (found, kind) in enumerate(entered, start=1):
        document = json.loads(canonical_json(verdict_act(found, kind).document))
        place = {"run_id": "r1", "destination": "warehouse", "scope": "cut"}
        evidence.entries[number] = {**place, "kind": kind.value, "document": document}
    evidence._compare_entries()
    assert evidence.faults == ([f"r1 warehouse cut: {fault}"] if fault else [])
