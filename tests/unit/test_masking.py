"""No value of a sensitive column is in what is shown, whatever holds it; what differs still differs."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.break_id import break_id
from seamline.domain.cut_state import FailedCheck
from seamline.domain.errors import ConfigError
from seamline.domain.late_posting import LatePosting
from seamline.domain.masking import DIFFERS, MASK, NOTHING_SAYS, Hidden, masked, masked_key
from seamline.domain.runs import Reconciliation
from seamline.domain.self_test import SELF_TEST, SelfTest, self_test_to_json
from seamline.domain.verdict import Break, BreakType, ControlTotal, TableVerdict, Verdict
from seamline.spec.sensitive import declared_sensitive, hidden_columns
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import cut, reconciliation

SECRET = "DE89370400440532013000"
HIDDEN = Hidden({"account": frozenset({"iban", "owner"}), "payment": frozenset()})
BROKEN = Break("account", BreakType.VALUE, '{"iban": "DE89370400440532013000", "no": "7"}', {"iban": SECRET, "no": "1"},
               {"iban": "other", "no": "2"})  # fmt: skip


def of(hidden: Hidden) -> Any:
    return lambda _: hidden


def found(*breaks: Break, **fields: Any) -> Reconciliation:
    table = TableVerdict("account", Verdict.BREAK, breaks=breaks, breaks_total=len(breaks))
    return replace(reconciliation(table), **fields)


def test_a_break_keeps_its_identity_and_what_is_not_sensitive() -> None:
    (one,) = masked(found(BROKEN), of(HIDDEN)).tables[0].breaks
    assert one.source == {"iban": MASK, "no": "1"}
    assert one.destination == {"iban": DIFFERS, "no": "2"}
    assert json.loads(one.key) == {"iban": MASK, "no": "7"}
    before = reconciliation()
    assert break_id(before.sync, before.destination, one) == break_id(before.sync, before.destination, BROKEN)
    assert BROKEN.source == {"iban": SECRET, "no": "1"}, "what is stored stays"


def test_the_key_of_a_late_posting_is_masked_by_its_columns() -> None:
    late = LatePosting("r1", "2026-03-01", "account", f'{{"iban": "{SECRET}", "no": "7"}}', 1, "p", None)
    emptied, other = replace(late, key=""), replace(late, table="payment")
    shown = masked((late, emptied, other), of(HIDDEN), "settlement")
    assert json.loads(shown[0].key) == {"iban": MASK, "no": "7"}
    assert shown[1:] == (emptied, other)


@pytest.mark.parametrize(
    ("mine", "theirs", "shown"),
    [
        ({"iban": "a"}, {"iban": "a"}, ({"iban": MASK}, {"iban": MASK})),
        ({"iban": "a"}, {"iban": "aaaaaaaa"}, ({"iban": MASK}, {"iban": DIFFERS})),
        ({"iban": None}, {"iban": ""}, ({"iban": None}, {"iban": MASK})),
        ({"iban": "a", "no": "1"}, None, ({"iban": MASK, "no": "1"}, None)),
        (None, {"iban": "a"}, (None, {"iban": MASK})),
    ],
)
def test_a_masked_value_says_neither_its_length_nor_more_than_whether_it_differs(
    mine: Any, theirs: Any, shown: tuple[Any, Any]
) -> None:
    one = masked(Break("account", BreakType.VALUE, "{}", mine, theirs), of(HIDDEN), "settlement")
    assert (one.source, one.destination) == shown


def test_words_about_a_whole_table_are_no_value_and_a_finding_names_no_row() -> None:
    systematic = Break("account", BreakType.SYSTEMATIC, "{}", {"": "2,000 of 3,000 rows differ, in iban"})
    met = Break("account", BreakType.FINDING, f"row {SECRET}", {"": "deleted twice"})
    whole, finding = masked(found(systematic, met), of(HIDDEN)).tables[0].breaks
    assert whole.source == {"": "2,000 of 3,000 rows differ, in iban"}
    assert (finding.key, finding.source) == (MASK, {"": "deleted twice"})


def test_keys_of_rows_that_break_a_rule_and_of_the_self_test_are_masked() -> None:
    checked = FailedCheck("account", "x", "why", f"observed {SECRET}", 3, (BROKEN.key, f"not JSON {SECRET}"))
    one = masked(checked, of(HIDDEN), "settlement")
    assert SECRET not in repr(one)
    assert (one.keys[0], one.keys[1], one.detail) == ('{"iban": "••••", "no": "7"}', MASK, MASK)
    counts = replace(checked, detail="element_count 10, unexpected_count 3")
    assert masked(counts, of(HIDDEN), "settlement").detail == counts.detail
    tested = SelfTest("s", planted=1, missed=(f'account {{"iban": "{SECRET}"}}: missing',))
    shown = masked(found(BROKEN, evidence={SELF_TEST: self_test_to_json(tested), "x": 1}), of(HIDDEN))
    assert shown.evidence[SELF_TEST]["missed"] == ["account {••••}: missing"]
    assert shown.evidence["x"] == 1


def test_a_table_that_is_not_declared_any_more_is_masked_whole_where_the_sync_hides_anything() -> None:
    renamed = replace(BROKEN, table="account_old")
    assert masked(renamed, of(HIDDEN), "s").source == {"iban": MASK, "no": MASK}
    assert masked(renamed, of(Hidden({"account": frozenset()})), "s") is renamed
    total = ControlTotal("account_old", "amount", ("EUR",), 1, 1)
    assert masked(total, of(HIDDEN), "s").group == (MASK,)
    assert masked(replace(total, table="account"), of(HIDDEN), "s").group == ("EUR",)


def test_where_nothing_says_what_is_sensitive_everything_is() -> None:
    state = cut(TableVerdict("payment", Verdict.BREAK, breaks=(replace(BROKEN, table="payment"),), breaks_total=1))
    shown = masked((state,), of(NOTHING_SAYS))
    assert SECRET not in repr(shown) and "other" not in repr(shown[0].found)


def test_where_nothing_is_sensitive_the_very_same_is_given_back() -> None:
    state = (cut(TableVerdict("account", Verdict.BREAK, breaks=(BROKEN,), breaks_total=1)),)
    assert masked(state, of(Hidden({"account": frozenset()}))) is state
    assert masked_key(SECRET, Hidden(), "account") == SECRET


@dataclass(frozen=True, slots=True)
class _StoredBreak:
    """As the platform database answers it."""

    break_id: str
    found: Break


def test_whatever_holds_a_break_holds_it_masked_with_the_identity_that_it_was_stored_with() -> None:
    answer = {"first": [_StoredBreak("0123456789abcdef", BROKEN)], "count": 1}
    shown = masked(answer, of(HIDDEN), "settlement")
    assert SECRET not in repr(shown)
    assert shown["first"][0].found.identity == "0123456789abcdef"  # type: ignore[index]


# ---- what is declared ------------------------------------------------------------------------------------------------


def declared(tmp_path: Path, sync: str) -> Path:
    return write_declarations(tmp_path, {"syncs/settlement.yaml": sync})


def test_the_sensitive_columns_of_a_sync_are_known_by_the_names_of_its_tables_in_it(tmp_path: Path) -> None:
    text = SYNC.replace("  - account\n", "  - {name: bank.account, as: client, sensitive: [iban]}\n  - other.payment\n")
    text = text.replace("as: instant}}", "as: instant}, sensitive: [account_id]}")
    assert dict(declared_sensitive(declared(tmp_path, text), "settlement")) == {
        "client": {"iban"},
        "other_payment": set(),
        "ledger_entry": {"account_id"},
        # What a sum is grouped by is as sensitive there.
        "daily_balance": {"account_id"},
    }


@pytest.mark.parametrize(
    "text", ["sync: [", "sync: settlement\n", SYNC.replace("- account", "- {name: account, sensitive: iban}")]
)
def test_a_file_that_does_not_say_what_is_sensitive_lets_nothing_be_shown(tmp_path: Path, text: str) -> None:
    folder = declared(tmp_path, text)
    with pytest.raises(ConfigError, match="does not say which columns are sensitive"):
        declared_sensitive(folder, "settlement")
    assert hidden_columns(folder, "settlement") is NOTHING_SAYS
    assert hidden_columns(folder, "nowhere") is NOTHING_SAYS
