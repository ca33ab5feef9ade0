"""What people may do about breaks, what each act needs, how it is declared, and how reports show it."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from seamline.domain.audit import canonical_json, sha256_of
from seamline.domain.break_age import DAYS, Aged, AgedAmount, band_in_words, with_groups
from seamline.domain.break_id import break_id, identities
from seamline.domain.break_work import (
    ALL_SETTLED,
    COMMENT_MAX,
    NAMED_MAX,
    REASONS,
    Doing,
    Order,
    Reason,
    Work,
    WorkRules,
    WorkState,
    breaks_document,
    checked,
    is_all_settled,
    possible,
)
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.tolerance import Tolerance, end_of
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.plan.compile import config_hash
from seamline.report import documents
from seamline.report.blocks import Report
from seamline.report.contents import report_of
from seamline.report.worked import Worked
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import declared_work, load_declarations, shown_work
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import MOMENT, cut

TWO = TableVerdict(
    "account",
    Verdict.BREAK,
    breaks=tuple(Break("account", BreakType.VALUE, key, {"a": "1"}, {"a": "2"}) for key in "12"),
    breaks_total=2,
)


def work(state: WorkState, **fields: str) -> Work:
    return Work("0" * 16, state, MOMENT, MOMENT, **fields)


def test_each_state_allows_its_acts_and_what_was_never_explained_is_not_closed() -> None:
    for state, acts in (
        (WorkState.OPEN, {Doing.ASSIGN, Doing.COMMENT, Doing.EXPLAIN}),
        (WorkState.EXPLAINED, {Doing.ASSIGN, Doing.COMMENT, Doing.EXPLAIN, Doing.REOPEN, Doing.CLOSE}),
        (WorkState.TOLERATED, {Doing.ASSIGN, Doing.COMMENT, Doing.EXPLAIN, Doing.CLOSE}),
        (WorkState.CLOSED, {Doing.COMMENT}),
    ):
        assert set(possible(work(state))) == acts
        handed = set() if state is WorkState.CLOSED else {Doing.HAND_BACK}
        assert set(possible(work(state, owner="bo"))) == acts | handed


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (Order(Doing.ASSIGN, "ann"), "name the person"),
        (Order(Doing.ASSIGN, "ann", owner=" : "), "name the person"),
        (Order(Doing.ASSIGN, "ann", owner="x" * 201), "name the person"),
        (Order(Doing.EXPLAIN, "ann"), "'' is no reason"),
        (Order(Doing.EXPLAIN, "ann", reason="odd"), "'odd' is no reason"),
        (Order(Doing.EXPLAIN, "ann", reason="other", comment=" \0"), "other needs a comment"),
        (Order(Doing.COMMENT, "ann", comment="\r\n"), "the comment is empty"),
        (Order(Doing.CLOSE, "ann"), "close needs a comment"),
        (Order(Doing.REOPEN, "ann"), "open again needs a comment"),
        (Order(Doing.COMMENT, "ann", comment="x" * (COMMENT_MAX + 1)), "at most 2,000 characters"),
    ],
)
def test_an_act_without_what_it_needs_is_refused(order: Order, said: str) -> None:
    with pytest.raises(Refused, match=said):
        checked(order, REASONS)


def test_texts_of_an_act_are_kept_without_what_makes_one_person_into_two() -> None:
    made = checked(Order(Doing.ASSIGN, " ann", owner="bo:  li ", comment=" a\r\nb\0 "), REASONS)
    assert (made.who, made.owner, made.comment) == ("ann", "bo li", "a\nb")


def test_an_entry_names_few_breaks_and_of_many_their_number_and_hash() -> None:
    few = [f"{number:016x}" for number in range(NAMED_MAX, 0, -1)]
    assert breaks_document(few)["break_ids"] == sorted(few)
    many = breaks_document([*few, "0" * 16])
    assert many == {"breaks": NAMED_MAX + 1, "breaks_hash": sha256_of(canonical_json(sorted([*few, "0" * 16])))}


def test_a_date_is_settled_only_when_every_break_that_was_found_is_listed_or_not() -> None:
    for states, total, settled in (
        ({WorkState.EXPLAINED: 2}, 2, True),
        ({WorkState.EXPLAINED: 1, WorkState.TOLERATED: 1, WorkState.CLOSED: 1}, 3, True),
        ({WorkState.EXPLAINED: 2, WorkState.OPEN: 1}, 3, False),
        ({WorkState.EXPLAINED: 2}, 3, False),
        ({}, 0, False),
    ):
        assert is_all_settled(states, total) is settled


# ---- declared --------------------------------------------------------------------------------------------------------


def declared(tmp_path: Path, text: str) -> Path:
    sync = SYNC.replace("reconcile:\n", f"reconcile:\n  work:\n    {text}\n" if text else "reconcile:\n")
    return write_declarations(tmp_path, {"syncs/settlement.yaml": sync})


def test_reasons_are_those_of_the_declaration_or_the_known_ones(tmp_path: Path) -> None:
    assert declared_work(declared(tmp_path, ""), "settlement").reasons == REASONS
    assert declared_work(tmp_path, "nothing").reasons == REASONS
    text = 'reasons: [{code: fee, text: "A fee", comment_required: true}, {code: late, text: "Late"}]'
    rules = declared_work(declared(tmp_path, text), "settlement")
    assert rules.reasons == (Reason("fee", "A fee", needs_comment=True), Reason("late", "Late"))
    assert (rules.text_of("fee"), rules.text_of("gone")) == ("A fee", "gone")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("reasons: [{code: a, text: x}, {code: a, text: y}]", "a stands twice"),
        ("reasons: [{code: A b, text: x}]", "a name has lower case letters"),
        ("reasons: [{code: a}]", "is missing"),
        ("reason: []", "unknown key"),
    ],
)
def test_a_list_of_reasons_that_is_wrong_is_refused_with_its_line_and_never_taken_for_another(
    tmp_path: Path, text: str, said: str
) -> None:
    folder = declared(tmp_path, text)
    with pytest.raises(DeclarationsInvalid, match=said) as caught:
        load_declarations(folder)
    assert "settlement.yaml:1" in str(caught.value)
    with pytest.raises(ConfigError, match="worked on"):
        declared_work(folder, "settlement")
    assert shown_work(folder, "settlement") == WorkRules(), "what only shows breaks goes on"


def test_a_sync_that_says_nothing_of_work_has_the_hash_that_it_had_before(tmp_path: Path) -> None:
    hashes = [
        config_hash(load_declarations(declared(tmp_path / str(number), text)), "settlement")
        for number, text in enumerate(("", "reasons: []", "reasons: [{code: a, text: b}]"))
    ]
    assert hashes[0] == hashes[1] != hashes[2]


# ---- reported --------------------------------------------------------------------------------------------------------


def report(*states: WorkState, verdict: TableVerdict = TWO) -> Report:
    one = cut(verdict)
    assert one.found is not None
    names = identities(one.found)
    works = {
        name: replace(work(state, owner="bo", reason="timing"), break_id=name)
        for name, state in zip(names, states, strict=False)
    }
    return report_of("settlement", [one], zone=ZoneInfo("Asia/Shanghai"), worked=Worked(works))


def rows(found: Report, title: str) -> list[tuple[object, ...]]:
    return [row.cells for block in found.blocks if block.title == title for row in block.rows]


def test_a_report_says_who_works_on_which_break_and_the_verdict_stays_a_break() -> None:
    found = report(WorkState.EXPLAINED, WorkState.OPEN)
    assert found.verdict == "BREAK"
    assert rows(found, "Breaks by state") == [("open", 1), ("explained", 1)]
    first = break_id("settlement", "warehouse", TWO.breaks[0])
    assert rows(found, "Work on breaks")[0] == (
        first, "account", "1", "explained", MOMENT, "bo", "timing", MOMENT,
    )  # fmt: skip
    assert rows(found, "Notes") == []
    settled = report(WorkState.EXPLAINED, WorkState.EXPLAINED)
    assert (settled.verdict, rows(settled, "Notes")) == ("BREAK", [(ALL_SETTLED,)])
    hidden = report(WorkState.EXPLAINED, WorkState.EXPLAINED, verdict=replace(TWO, breaks_total=3))
    assert rows(hidden, "Notes") == []


def test_the_json_of_a_date_has_the_work_on_each_break() -> None:
    one = cut(TWO)
    first = break_id("settlement", "warehouse", TWO.breaks[0])
    works = {first: replace(work(WorkState.EXPLAINED, reason="timing"), break_id=first)}
    (document,) = documents.to_json([one], [], levels={}, worked=Worked(works))
    known, unknown = document["tables"][0]["breaks"]
    assert (known["work"]["state"], known["work"]["reason"], known["work"]["owner"]) == ("explained", "timing", None)
    assert unknown["work"] is None


def test_a_report_lists_each_tolerance_in_force_with_approver_end_and_what_it_absorbs() -> None:
    """Its end was shown as the day after, at 00:00."""
    zone, until = ZoneInfo("Asia/Shanghai"), date(2026, 12, 31)
    one = cut(TWO)
    assert one.found is not None
    first, second = identities(one.found)
    held = Tolerance(
        7, "settlement", "warehouse", "account", "a", Decimal("1.5"), "fees", "ann", MOMENT, end_of(until, zone),
        approved_by="bo", approved_at=MOMENT, breaks=4, absorbed=Decimal("3.25"),
    )  # fmt: skip
    covered = replace(work(WorkState.TOLERATED), break_id=first, tolerance=7, absorbed=Decimal("1.00"))
    works = {first: covered, second: replace(work(WorkState.EXPLAINED), break_id=second)}
    elsewhere = replace(held, number=8, destination="archive")
    found = report_of("settlement", [one], zone=zone, worked=Worked(works, [held, elsewhere]))
    assert rows(found, "Tolerances") == [
        (7, "account", "a", Decimal("1.5"), "fees", "ann", "bo", until, 1, Decimal("1.00"), Decimal("3.25"))
    ]
    assert (found.verdict, rows(found, "Notes")) == ("BREAK", [(ALL_SETTLED,)])
    (document,) = documents.to_json([one], [], levels={}, worked=Worked(works, [held, elsewhere]), zone=zone)
    names = ("number", "approved_by", "last_day", "expires_at", "absorbed_so_far")
    assert [tuple(of[name] for name in names) for of in document["tolerances"]] == [
        (7, "bo", "2026-12-31", "2027-01-01T00:00:00+08:00", "3.25")
    ]
    assert document["tables"][0]["breaks"][0]["work"]["tolerance"] == 7


# ---- ages ------------------------------------------------------------------------------------------------------------


def test_bands_of_age_are_those_of_accounts_and_are_named_with_their_last_day() -> None:
    bands = [band_in_words(number) for number in range(len(DAYS) + 1)]
    assert bands == [
        "0–1 days", "2–5 days", "6–30 days", "31–60 days", "61–90 days", "91–180 days", ">180 days",
    ]  # fmt: skip
    assert [band_in_words(number, (0, 3)) for number in range(3)] == ["0 days", "1–3 days", ">3 days"]


def test_ages_are_declared_as_days_that_grow(tmp_path: Path) -> None:
    assert declared_work(declared(tmp_path / "a", "ages: [0, 7]"), "settlement").ages == (0, 7)
    for number, text in enumerate(("ages: [5, 5]", "ages: [-1, 5]", "ages: []", "ages: [x]")):
        with pytest.raises(DeclarationsInvalid):
            load_declarations(declared(tmp_path / str(number), text))


def test_a_report_has_a_line_for_each_band_and_adds_no_currency_to_another() -> None:
    one = cut(TWO)
    assert one.found is not None
    unknown, known = (AgedAmount("account", "a", group, 1, Decimal("2.50")) for group in (None, ("EUR",)))
    aged = [Aged(0, 2, 1, 0, (known, unknown)), Aged(6, 1, 1, 1)]
    worked = Worked(aged={("r", "warehouse", "cut"): aged})
    found = report_of("settlement", [one], zone=ZoneInfo("UTC"), worked=worked)
    assert rows(found, "Breaks by age") == [
        ("0–1 days", 2, 1, 0, "account.a", "EUR", 1, Decimal("2.50")),
        ("0–1 days", None, None, None, "account.a", None, 1, None),
        (">180 days", 1, 1, 1, None, None, None, None),
    ]
    (document,) = documents.to_json([one], [], levels={}, worked=worked)
    assert [(of["age"], of["carried_forward"], len(of["amounts"])) for of in document["ageing"]] == [
        ("0–1 days", 0, 2),
        (">180 days", 1, 0),
    ]
    total = ControlTotal("account", "a", ("EUR",), 1, 1)
    assert with_groups(aged, [total])[0].amounts == (known, known)
    assert with_groups(aged, [total, replace(total, group=("USD",))])[0].amounts == (known, unknown)
