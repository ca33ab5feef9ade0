"""The log of acts without a database: canonical JSON, hashes, and that a chain and a verdict show what was changed."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest

from seamline.cli.audit import summary
from seamline.domain.audit import (
    NOTHING_BEFORE,
    Act,
    ChainCheck,
    Entry,
    Kind,
    Subject,
    canonical_json,
    cut_act,
    decision_act,
    link_hash,
    sha256_of,
    verdict_document,
    verdict_faults,
    verdict_hash,
    verdict_json,
)
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.errors import InvariantViolated
from seamline.domain.runs import Cut, Reconciliation, Scope
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.domain.witness import Moved, Witness
from seamline.platform import verify_evidence
from seamline.platform.audit_check import Checked
from seamline.sources.mariadb.position import BinlogPosition

AT = datetime(2026, 3, 2, 0, 31, 5, 70, tzinfo=UTC)
POSITION = BinlogPosition("0-1-42", "mdb-bin.000003", 1234)


def reconciliation() -> Reconciliation:
    account = TableVerdict(
        "account",
        Verdict.BREAK,
        reason="1 row differs",
        source_rows=3,
        destination_rows=3,
        totals=(ControlTotal("account", "balance", ("EUR",), 3, 3, Decimal("12.3400"), Decimal("12.3300")),),
        breaks=(
            Break("account", BreakType.VALUE, '["7"]', {"zulu": "1", "alpha": None}, {"zulu": "2", "alpha": None}),
            Break("account", BreakType.MISSING, '["8"]', {"zulu": "1"}, None),
        ),
        breaks_total=2,
    )
    return Reconciliation(
        "r1", "settlement", "warehouse", Scope.CUT, date(2026, 3, 1), POSITION, AT, "read", Verdict.BREAK,
        (account, TableVerdict("audit", Verdict.NOT_RUN, reason="parked")), AT, AT + timedelta(seconds=5),
        {"buckets": [1, 2]},
    )  # fmt: skip


# ---- canonical JSON ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"b": 1, "a": [True, None]}, '{"a":[true,null],"b":1}'),
        ({"ü": '中 🦀 \x01\n\x7f"\\/'}, '{"ü":"中 🦀 \\u0001\\n\x7f\\"\\\\/"}'),
        (Decimal("12.3400"), '"12.3400"'),
        (Decimal("1E+2"), '"100"'),
        (Decimal("-0.00"), '"0.00"'),
        (0.1, '"0.1"'),
        (1e-7, '"0.0000001"'),
        (2.0, "2"),
        (-0.0, "0"),
        (1e16, "10000000000000000"),
        (2**70, "1180591620717411303424"),
        (AT, '"2026-03-02T00:31:05.000070Z"'),
        (AT.astimezone(timezone(timedelta(hours=8))), '"2026-03-02T00:31:05.000070Z"'),
        (AT.replace(tzinfo=None), '"2026-03-02T00:31:05.000070Z"'),
        (date(2026, 3, 1), '"2026-03-01"'),
        (Verdict.MATCH, '"MATCH"'),
        ({7: ()}, '{"7":[]}'),
    ],
)
def test_a_value_has_one_canonical_text(value: object, text: str) -> None:
    assert canonical_json(value) == text


@pytest.mark.parametrize("value", [{1, 2}, b"x", {None: 1}, {True: 1}, object()])
def test_a_value_without_a_canonical_text_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="no canonical JSON"):
        canonical_json(value)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_number_that_json_cannot_hold_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no canonical JSON"):
        canonical_json([value])


# ---- verdicts ------------------------------------------------------------------------------------------------------

Change = Callable[[Reconciliation], Reconciliation]


def table(one: Reconciliation, **changed: Any) -> Reconciliation:
    return replace(one, tables=(replace(one.tables[0], **changed), one.tables[1]))


def break_(one: Reconciliation, **changed: Any) -> Reconciliation:
    breaks = one.tables[0].breaks
    return table(one, breaks=(replace(breaks[0], **changed), breaks[1]))


def total(one: Reconciliation, **changed: Any) -> Reconciliation:
    return table(one, totals=(replace(one.tables[0].totals[0], **changed),))


CHANGES: dict[str, tuple[Change, list[str]]] = {
    "a byte of a value": (lambda one: break_(one, source={"zulu": "3", "alpha": None}), ["table account was changed"]),
    "NULL into an empty text": (
        lambda one: break_(one, source={"zulu": "1", "alpha": ""}),
        ["table account was changed"],
    ),
    "a key": (lambda one: break_(one, key='["9"]'), ["table account was changed"]),
    "a kind of break": (lambda one: break_(one, type=BreakType.DUPLICATE), ["table account was changed"]),
    "a total": (lambda one: total(one, destination_sum=Decimal("12.3400")), ["table account was changed"]),
    "the scale of a total": (lambda one: total(one, source_sum=Decimal("12.34")), ["table account was changed"]),
    "a currency": (lambda one: total(one, group=("USD",)), ["table account was changed"]),
    "a deleted break": (lambda one: table(one, breaks=one.tables[0].breaks[:1]), ["table account was changed"]),
    "two breaks in another order": (
        lambda one: table(one, breaks=one.tables[0].breaks[::-1]),
        ["table account was changed"],
    ),
    "how many breaks there are": (lambda one: table(one, breaks_total=1), ["table account was changed"]),
    "rows": (lambda one: table(one, source_rows=4), ["table account was changed"]),
    "a reason": (lambda one: table(one, reason=""), ["table account was changed"]),
    "a table's verdict": (lambda one: table(one, verdict=Verdict.MATCH), ["table account was changed"]),
    "a table's name": (
        lambda one: table(one, table="other"),
        ["table account was removed", "table other was inserted"],
    ),
    "a table that is gone": (lambda one: replace(one, tables=one.tables[1:]), ["table account was removed"]),
    "tables in another order": (
        lambda one: replace(one, tables=one.tables[::-1]),
        ["its tables stand in another order"],
    ),
    "the headline": (lambda one: replace(one, verdict=Verdict.MATCH), ["its header or evidence was changed"]),
    "the position": (
        lambda one: replace(one, position=BinlogPosition("0-1-43", "mdb-bin.000003", 1234)),
        ["its header or evidence was changed"],
    ),
    "no position": (lambda one: replace(one, position=None), ["its header or evidence was changed"]),
    "a microsecond": (
        lambda one: replace(one, ended_at=one.ended_at + timedelta(microseconds=1)),
        ["its header or evidence was changed"],
    ),
    "the date": (
        lambda one: replace(one, business_date=date(2026, 3, 2)),
        ["its header or evidence was changed"],
    ),
    "the mode": (lambda one: replace(one, mode="barrier"), ["its header or evidence was changed"]),
    "evidence": (lambda one: replace(one, evidence={"buckets": [1, 3]}), ["its header or evidence was changed"]),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_of_a_verdict_changes_its_hash_and_is_named(what: str) -> None:
    change, faults = CHANGES[what]
    logged = json.loads(canonical_json(verdict_document(reconciliation())))
    changed = change(reconciliation())
    assert verdict_hash(changed) != verdict_hash(reconciliation())
    assert verdict_faults(logged, changed) == faults
    assert verdict_faults(logged, reconciliation()) == []


def test_a_verdicts_hash_is_that_of_its_canonical_text_and_does_not_hang_on_the_order_of_columns() -> None:
    text = canonical_json(verdict_json(reconciliation()))
    assert verdict_hash(reconciliation()) == hashlib.sha256(text.encode()).hexdigest()
    turned = break_(reconciliation(), source={"alpha": None, "zulu": "1"})
    assert verdict_hash(turned) == verdict_hash(reconciliation())


def test_everything_that_is_stored_of_a_verdict_is_hashed_and_what_is_added_later_has_to_be_decided() -> None:
    """A field that a later version adds is left out of the hash where it has its default: older hashes stay."""
    verdict: Any = verdict_json(reconciliation())
    (table, _), (total,), (one, _) = (
        verdict["tables"],
        verdict["tables"][0]["totals"],
        verdict["tables"][0]["breaks"],
    )
    for kind, made, beside in (
        # What the log of acts has of it is looked up there, and stored with no verdict.
        (Reconciliation, verdict, {"recorded"}),
        (TableVerdict, table, {"digest"}),
        (ControlTotal, total, set()),
        # Who shows a masked break knows its identity by it.
        # What no log was asked about has no witness, what has no amount nothing beside it: the hash of before stays.
        (Break, one, {"identity", "witness", "beside"}),
    ):
        assert {field.name for field in fields(kind)} == {*made, *beside}


def test_what_the_log_says_of_a_break_is_hashed_with_it() -> None:
    witnessed = break_(reconciliation(), witness=Witness(Moved.DESTINATION, "the log explains no change of this row"))
    assert verdict_hash(witnessed) != verdict_hash(reconciliation())


def test_the_currency_beside_an_amount_is_hashed_with_it() -> None:
    hashes = {verdict_hash(break_(reconciliation(), beside={"currency": one})) for one in ("EUR", "USD")}
    assert len(hashes | {verdict_hash(reconciliation())}) == 3


def test_the_hash_of_a_verdict_of_an_older_version_stays() -> None:
    assert verdict_hash(reconciliation()) == "b4e4ac82c2cb3755e1a909fa31e10688f6c7985b762703b95e6f6ce33d1088a7"


# ---- the chain -----------------------------------------------------------------------------------------------------


def chained(*acts: Act) -> list[Entry]:
    """As the database makes them."""
    made: list[Entry] = []
    for number, act in enumerate(acts, start=1):
        previous = made[-1].hash if made else NOTHING_BEFORE
        document = canonical_json(act.document)
        entry = Entry(number, AT, act.kind, act.who, act.origin, act.subject, document, previous, "", "")
        made.append(sealed(entry))
    return made


def sealed(entry: Entry) -> Entry:
    content = sha256_of(entry.content)
    own = link_hash(content_hash=content, number=entry.number, previous=entry.previous)
    return replace(entry, content_hash=content, hash=own)


def a_chain() -> list[Entry]:
    subject = Subject("settlement", "warehouse", date(2026, 3, 1), "r1", "cut")
    acts = [Act(Kind.COMMENTED, subject, {"text": f"number {number}"}, "ann", "page") for number in range(1, 6)]
    return chained(*acts)


def faults(chain: Sequence[Entry]) -> list[str]:
    check = ChainCheck()
    return [fault for entry in chain for fault in check.faults(entry)]


def name(number: int) -> str:
    return f"entry {number} (commented, settlement → warehouse 2026-03-01, run r1)"


def test_a_whole_chain_has_no_fault_and_its_content_is_canonical_json() -> None:
    chain = a_chain()
    assert faults(chain) == []
    content = json.loads(chain[0].content)
    assert canonical_json(content) == chain[0].content
    assert content == {
        "at": "2026-03-02T00:31:05.000070Z", "business_date": "2026-03-01", "destination": "warehouse",
        "document": {"text": "number 1"}, "kind": "commented", "origin": "page", "run_id": "r1", "scope": "cut",
        "sync": "settlement", "who": "ann",
    }  # fmt: skip


@pytest.mark.parametrize(
    "changed",
    [
        {"who": "bob"},
        {"kind": "signed"},
        {"origin": "elsewhere"},
        {"at": AT + timedelta(microseconds=1)},
        {"document": '{"text":"number 2 "}'},
        {"document": '{"text": "number 2"}'},
        {"subject": Subject("settlement", "warehouse", date(2026, 3, 2), "r1", "cut")},
        {"subject": Subject("settlement", "archive", date(2026, 3, 1), "r1", "cut")},
        {"subject": Subject("settlement", "warehouse", None, "r1", "cut")},
        {"subject": Subject("settlement", "warehouse", date(2026, 3, 1), "r2", "cut")},
        {"subject": Subject("other", "warehouse", date(2026, 3, 1), "r1", "cut")},
        {"subject": Subject("settlement", "warehouse", date(2026, 3, 1), "r1", "live")},
    ],
)
def test_every_field_of_an_entry_is_held_by_its_hash(changed: dict[str, Any]) -> None:
    chain = a_chain()
    chain[1] = replace(chain[1], **changed)
    assert faults(chain) == [f"{chain[1]}: its content was changed"]
    chain[1] = replace(chain[1], content_hash=sha256_of(chain[1].content))
    assert faults(chain) == [f"{chain[1]}: its number or a hash was changed"]
    chain[1] = sealed(chain[1])
    assert faults(chain) == [f"{name(3)}: it follows another entry than entry 2 as that is stored"]


def test_entries_that_are_gone_are_named_by_their_numbers() -> None:
    chain = a_chain()
    assert faults([chain[0], *chain[2:]]) == ["entry 2 is missing"]
    assert faults([chain[0], *chain[3:]]) == ["entries 2 to 3 are missing"]
    assert faults(chain[1:]) == ["entry 1 is missing"]


def test_entries_that_changed_places_or_numbers_are_named() -> None:
    chain = a_chain()
    found = faults([chain[0], chain[2], chain[1], *chain[3:]])
    assert found[:2] == ["entry 2 is missing", f"{name(2)}: its number is not above 3, that of the entry before"]
    swapped = [chain[0], replace(chain[2], number=2), replace(chain[1], number=3), *chain[3:]]
    assert f"{name(2)}: its number or a hash was changed" in faults(swapped)
    assert f"{name(3)}: its number or a hash was changed" in faults(swapped)


def test_an_entry_that_was_put_in_between_and_renumbers_the_rest_is_named() -> None:
    chain = a_chain()
    foreign = sealed(replace(chain[1], who="eve"))
    rest = [replace(entry, number=entry.number + 1) for entry in chain[1:]]
    assert f"{name(3)}: its number or a hash was changed" in faults([chain[0], foreign, *rest])


def test_a_chain_that_was_written_again_whole_has_no_fault_of_its_own_so_its_head_is_anchored() -> None:
    again = chained(*(Act(Kind.SIGNED, Subject("other"), {}, "eve") for _ in range(5)))
    assert faults(again) == []
    assert again[-1].hash != a_chain()[-1].hash


# ---- acts ----------------------------------------------------------------------------------------------------------


def test_a_decision_names_who_made_it_and_the_verdicts_that_it_is_about() -> None:
    subject = Subject("settlement", "", date(2026, 3, 1), "r1", "cut")
    asked = Decision.asked(("ann",))
    hashes = {"warehouse": "x"}
    acts = [
        decision_act(subject, asked.to_json(), hashes),
        decision_act(subject, asked.answered(DecisionState.APPROVED, who="ann", reason="known").to_json(), hashes),
        decision_act(subject, asked.answered(DecisionState.REJECTED, who="", reason="no").to_json(), hashes),
        decision_act(subject, asked.answered(DecisionState.EXPIRED).to_json(), hashes),
        decision_act(subject, None, hashes),
    ]
    assert [(act.kind.value, act.who, act.origin) for act in acts] == [
        ("asked", "", "run"),
        ("approved", "ann", "Airflow"),
        ("rejected", "somebody", "Airflow"),
        ("expired", "scheduler", "run"),
        ("question withdrawn", "scheduler", "run"),
    ]
    assert all(act.document["verdict_hashes"] == hashes for act in acts)


def test_a_cut_is_entered_only_once_it_is_stored() -> None:
    cut = Cut("s", "w", date(2026, 3, 1), 1, "r1", POSITION, AT, ("account",), Verdict.MATCH)
    with pytest.raises(InvariantViolated, match="after it is stored"):
        cut_act(cut, Kind.PUBLISHED, verdict="")
    assert cut_act(replace(cut, saved_at=AT), Kind.PUBLISHED, verdict="x").document["verdict_hash"] == "x"


@pytest.mark.parametrize(("faults", "said"), [(0, "nothing is wrong"), (1, "1 FAULT"), (2, "2 FAULTS")])
def test_one_fault_is_not_many(faults: int, said: str) -> None:
    """Found by a newcomer: "1 FAULTS"."""
    seen, anchored, outcome = summary(Checked(entries=1, verdicts=2, decisions=1, anchored=0, faults=faults))
    assert seen == "1 entry, 2 verdicts, 1 decision, 0 cuts, 0 signatures, 0 files"
    assert anchored == "no anchor; 1 entry stands behind no anchor"
    assert outcome == said
    assert not faults or verify_evidence.counted(faults, "FAULT", "FAULTS") == said
