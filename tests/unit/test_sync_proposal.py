"""What `init` proposes of a table: its business date, its control totals, and never what a type rules out."""

import pytest
import yaml

from seamline.cli.init_text import FoundTable, source_text, sync_text
from seamline.domain.calendar import Holds
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.server_found import ListedTable
from seamline.spec.sync import SyncSpec
from seamline.sync.suite_proposal import Observed
from seamline.sync.sync_proposal import ProposedDate, proposed_entry

LISTED = ListedTable("bank", "payment", 1200, 3 << 20)
KEY = Column("id", Kind.INTEGER, "bigint", nullable=False)


def moment(name: str, kind: Kind = Kind.INSTANT, *, nullable: bool = False) -> Column:
    return Column(name, kind, kind.value, nullable=nullable)


def amount(name: str = "amount") -> Column:
    return Column(name, Kind.DECIMAL, "decimal(19,2)", precision=19, scale=2)


def table(*columns: Column) -> Table:
    return Table("payment", (KEY, *columns), ("id",))


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ([moment("sold_on", Kind.DATE)], ("sold_on", Holds.DATE)),
        ([moment("created_at"), moment("value_date", Kind.DATE)], ("value_date", Holds.DATE)),
        ([moment("business_date", Kind.DATE), moment("trade_date", Kind.DATE)], ("business_date", Holds.DATE)),
        ([moment("updated_at"), moment("created_at", Kind.DATETIME)], ("created_at", Holds.LOCAL)),
        ([moment("rental_date")], ("rental_date", Holds.INSTANT)),
        ([moment("at")], ("at", Holds.INSTANT)),
    ],
)
def test_the_date_of_business_goes_before_the_one_of_typing(columns: list[Column], chosen: tuple[str, Holds]) -> None:
    found = proposed_entry(table(*columns), Observed()).date
    assert found is not None and (found.column, found.holds) == chosen


@pytest.mark.parametrize("name", ["updated_at", "last_update", "birth_date", "expires_on", "valid_from", "closed_at"])
def test_a_date_that_moves_or_says_nothing_of_business_is_not_proposed(name: str) -> None:
    found = proposed_entry(table(moment(name, Kind.DATE)), Observed())
    assert (found.date, found.others) == (None, ())


def test_a_date_that_may_be_missing_is_named_and_not_chosen() -> None:
    seen = Observed(9, {}, {"value_date": ("2026-01-01", "2026-11-28")})
    found = proposed_entry(table(moment("value_date", Kind.DATE, nullable=True)), seen)
    assert found.date is None
    assert found.others == (ProposedDate("value_date", Holds.DATE, "2026-01-01", "2026-11-28"),)


def test_amounts_are_added_up_by_what_looks_like_a_currency() -> None:
    money = Column("unit", Kind.CHAR, "char(3)")
    found = proposed_entry(table(amount(), money), Observed(9, {"unit": ("CNY", "USD")}))
    assert (found.sums, found.by) == (("amount",), ("unit",))


def test_numbers_that_are_no_exact_amounts_are_not_added_up() -> None:
    columns = [
        Column("rate", Kind.DOUBLE, "double"),
        Column("branch", Kind.INTEGER, "int"),
        Column("code", Kind.DECIMAL, "decimal(9,0)", precision=9),
    ]
    assert proposed_entry(table(*columns), Observed()).sums == ()


def test_the_files_carry_what_was_found_as_comments_and_park_what_cannot_be_carried() -> None:
    carried = table(moment("value_date", Kind.DATE), amount(), Column("currency", Kind.CHAR, "char(3)"))
    observed = Observed(2, {}, {"value_date": ("2026-01-02", "2026-11-28")})
    found = [
        FoundTable("payment", LISTED, carried, proposed_entry(carried, observed)),
        FoundTable("Off", ListedTable("bank", "Off"), trouble='"Off"."x" money: its text follows lc_monetary'),
    ]
    said = sync_text("pay", "core", "dwh", found, time_zone="Asia/Shanghai", suite="pay")
    assert "# about 1,200 rows, 3.0 MB; key id; value_date from 2026-01-02 to 2026-11-28" in said
    assert "  - {name: payment, business_date: {column: value_date, as: date}}" in said
    assert "    - {table: payment, sum: amount, by: [currency]}" in said
    assert r'  - {name: "Off", parked: "\"Off\".\"x\" money: its text follows lc_monetary"}' in said
    assert '  timezone: "Asia/Shanghai"' in said


def test_one_login_for_all_roles_is_written_down_as_what_it_is() -> None:
    said = source_text("core", "mariadb", connection="core", capture="core", database="bank")
    assert "One login for all roles" in said and "capture_connection: core" in said and "schema:" not in said


def test_what_can_be_done_about_a_parked_table_stands_whole_above_a_reason_that_has_a_bound() -> None:
    ways = "leave the table out of the sync, or " * 5
    why = f"column `p` point: geometry is not supported yet. {ways}change the column"
    found = [FoundTable("place", ListedTable("till", "place"), trouble=why)]
    said = sync_text("sales", "till", "vault", found, time_zone="Asia/Shanghai", suite="sales")
    (parked,) = SyncSpec.model_validate(yaml.safe_load(said)).tables
    assert parked.parked == f"{why[:199]}…"
    comments = " ".join(line.strip().removeprefix("# ") for line in said.splitlines() if line.startswith("  # "))
    assert why in comments
