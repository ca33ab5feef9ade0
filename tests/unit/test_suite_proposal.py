"""A proposed suite: what the catalogue promises and few values become checks, what some rows show a remark."""

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import yaml

from seamline.cli.expectations import suite_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.ports import ReadView
from seamline.ports.shadow import ShadowCopy
from seamline.spec.expectations import ExpectationsSpec
from seamline.spec.load import load_declarations
from seamline.sync.suite_proposal import Observed, ProposedTable, observe, proposed
from tests.unit.declared import write_declarations
from tests.unit.memory_views import AUDIT, ENTRY, MemoryView, entries


class Looked(MemoryView):
    """`ports.shadow.Shadows`, as the views of databases are."""

    def sample(self, table: str, *, rows: int, key_from: int | None = None) -> Sequence[str]:
        keys = [row for row in self.content if key_from is None or row["id"] >= key_from]
        return [self._key(row) for row in keys[:rows]]

    def shadow(self, wanted: ShadowCopy) -> ReadView:
        raise NotImplementedError


def checks_of(found: ProposedTable, kind: str) -> list[dict[str, object]]:
    return [dict(one.kwargs) for one in found.checks if one.type == kind and not one.is_off]


def test_the_catalogue_becomes_checks_and_what_rows_show_becomes_remarks() -> None:
    found = proposed(ENTRY, observe(Looked(ENTRY, entries(40)), ENTRY), business_date="booked_at")
    assert checks_of(found, "expect_column_values_to_be_unique") == [{"column": "id"}]
    assert checks_of(found, "expect_column_values_to_not_be_null") == [{"column": "id"}, {"column": "currency"}]
    assert checks_of(found, "expect_column_values_to_be_in_set") == [
        {"column": "currency", "value_set": ["CNY", "EUR", "USD"]}
    ]
    assert checks_of(found, "expect_column_values_to_be_between") == [], "a rule of some rows fails on the next day"
    off = {one.type: dict(one.kwargs) for one in found.checks if one.is_off}
    assert off["expect_column_values_to_be_between"] == {"column": "amount", "min_value": 0.25, "max_value": 10.0}
    assert off["expect_table_row_count_to_be_between"] == {"min_value": 1}
    assert found.remarks[0].startswith("types in the source: id bigint, currency char(3)")


def test_columns_of_many_values_and_of_few_rows_get_no_set() -> None:
    assert observe(Looked(ENTRY, entries(8)), ENTRY).sets == {}, "three values of eight rows are no set"
    rows = [{**row, "memo": f"memo {row['id']}"} for row in entries(400)]
    assert set(observe(Looked(ENTRY, rows), ENTRY).sets) == {"currency"}


def test_of_a_sensitive_column_no_value_is_written_down() -> None:
    seen = observe(Looked(ENTRY, entries(40)), ENTRY, hidden={"currency", "amount"})
    assert "currency" not in seen.sets and "amount" not in seen.least_and_greatest
    found = proposed(ENTRY, seen)
    assert "EUR" not in suite_text("entry", "settlement", [found])
    assert {"column": "currency"} in checks_of(found, "expect_column_values_to_not_be_null")


def test_a_value_that_only_rows_beyond_the_look_have_is_in_the_set() -> None:
    rows = entries(3_000)
    rows[700]["currency"] = "XAU"
    assert "XAU" in observe(Looked(ENTRY, rows), ENTRY).sets["currency"]


def test_values_that_yaml_would_read_otherwise_come_back_as_they_are() -> None:
    values = ["no", "1.0", "~", "a: b", "it's", 'say "x"', "line\u2028end", "tab\there", "# no comment", "é"]
    observed = Observed(40, {"memo": tuple(values)}, {"amount": ("-1.5", "2")})
    table = replace(ENTRY, name="entry")
    text = suite_text("entry", "settlement", [proposed(table, observed)])
    spec = ExpectationsSpec.model_validate(yaml.safe_load(text))
    (check,) = [one for one in spec.checks if one.type == "expect_column_values_to_be_in_set"]
    assert check.kwargs == {"column": "memo", "value_set": values}


def test_what_is_written_is_right_as_a_declaration(tmp_path: Path) -> None:
    moments = Table(
        "ledger_entry",
        (
            Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
            Column("day", Kind.DATE, "date", nullable=False),
        ),
        key=("id", "day"),
    )
    observed = Observed(9, {}, {"day": ("2026-03-01", "2026-03-09")})
    tables = [proposed(moments, observed), ProposedTable("account", left_out="a transform\nmakes its rows")]
    text = suite_text("settlement", "settlement", tables)
    declared = load_declarations(write_declarations(tmp_path, {"expectations/settlement.yaml": text}))
    assert [one.type for one in declared.expectations["settlement"].checks] == [
        "expect_table_columns_to_match_set",
        "expect_compound_columns_to_be_unique",
        "expect_column_values_to_not_be_null",
        "expect_column_values_to_not_be_null",
    ]
    assert "# day from 2026-03-01 to 2026-03-09, in 9 rows" in text
    assert "# nothing is proposed: a transform makes its rows" in text


def test_a_table_without_rows_or_key_is_proposed_by_its_catalogue_alone() -> None:
    found = proposed(AUDIT, observe(MemoryView(AUDIT, []), AUDIT))
    assert [one.type for one in found.checks] == [
        "expect_table_columns_to_match_set",
        "expect_column_values_to_not_be_null",
    ]
    assert observe(Looked(ENTRY, []), ENTRY) == Observed()


def test_amounts_keep_their_order_whatever_their_digits() -> None:
    rows = [{**row, "amount": Decimal(amount)} for row, amount in zip(entries(4), (9, 10, -2, -10), strict=True)]
    assert observe(Looked(ENTRY, rows), ENTRY).least_and_greatest["amount"] == ("-10.0000", "10.0000")
