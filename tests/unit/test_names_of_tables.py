"""A table has one name in a sync: the declared one, or one that follows from where it lies and is never cut."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain.names import NameLimit, NameUnit, fitted_name
from seamline.domain.table_places import TablePlace, TablePlaces
from seamline.kinds.found import sink_kind
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.model import SyncPlan
from seamline.sources.postgres.spec import PostgresSource
from seamline.spec.faults import DeclarationsInvalid, Fault
from seamline.spec.load import load_declarations
from seamline.sync.capture_lifecycle import wanted_tables
from tests.unit.declared import SOURCE, write_declarations

POSTGRES = "source: core_bank\nkind: postgres\nconnection: core_bank\ndatabase: bank\nschema: main\n"
IN_BYTES, IN_CHARACTERS = NameLimit(63, NameUnit.BYTES), NameLimit(64, NameUnit.CHARACTERS)


def folder_of(folder: Path, *tables: str, source: str = POSTGRES) -> Path:
    listed = "".join(f"  - {table}\n" for table in tables)
    sync = f"sync: settlement\nsource: core_bank\ndestinations: [warehouse]\ntables:\n{listed}"
    return write_declarations(folder, {"sources/core_bank.yaml": source, "syncs/settlement.yaml": sync})


def plan_of(folder: Path, *tables: str, source: str = POSTGRES) -> SyncPlan:
    return compile_plan(load_declarations(folder_of(folder, *tables, source=source)), "settlement")


def fault_of(folder: Path, *tables: str, source: str = POSTGRES) -> Fault:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(folder_of(folder, *tables, source=source))
    (fault,) = caught.value.faults
    return fault


def test_a_table_is_called_by_as_or_after_where_it_lies(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "account", "sales.order", "{name: 销售.order, as: 订单}", "{name: trade, as: deal}")
    assert [table.name for table in plan.tables] == ["account", "sales_order", "订单", "deal"]
    places = plan.source.places
    assert [places.of(table.name).text for table in plan.tables] == [
        "main.account", "sales.order", "销售.order", "main.trade",
    ]  # fmt: skip
    captured = ("account", "sales.order", "seamline_marker", "trade", "销售.order")
    assert wanted_tables(plan, ()) == captured, "for every sync of the source alike"
    assert "table 订单 (from 销售.order): live" in explain(plan)
    assert "table account: live" in explain(plan)


def test_the_own_schema_may_be_written_out(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "{name: main.account, as: account}")
    assert (plan.tables[0].name, plan.source.elsewhere) == ("account", ())


def test_a_plan_of_before_tables_could_lie_elsewhere_means_what_it_meant(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, "account", "ledger_entry")
    stored = json.loads(plan_to_json(plan))
    del stored["source"]["elsewhere"], stored["source"]["databases"]
    assert plan_from_json(json.dumps(stored)) == plan
    elsewhere = plan_of(tmp_path, "account", "sales.order")
    assert plan_from_json(plan_to_json(elsewhere)) == elsewhere


@pytest.mark.parametrize("wanted", ["票" * 22, "a" * 64, "sales_" + "x" * 64])
def test_a_name_that_is_too_long_gets_a_mark_and_stays_apart_from_one_that_begins_alike(wanted: str) -> None:
    one, other = (fitted_name(name, [IN_BYTES]) for name in (wanted, f"{wanted}y"))
    assert one != other
    assert len(one.encode()) <= 63 and wanted.startswith(one[:-9]) and one[-9] == "_"
    assert fitted_name(wanted, [IN_BYTES]) == one, "the same each time"


def test_the_limit_is_that_of_each_destination() -> None:
    assert fitted_name("票" * 64, [IN_CHARACTERS]) == "票" * 64
    assert len(fitted_name("票" * 64, [IN_CHARACTERS, IN_BYTES]).encode()) <= 63
    assert fitted_name("票" * 21, [IN_BYTES]) == "票" * 21


def test_a_long_name_is_derived_or_declared(tmp_path: Path) -> None:
    long = "票" * 30
    plan = plan_of(tmp_path, long, f"{{name: sales.{long}, as: 短}}", source=f"{SOURCE}databases: [sales]\n")
    assert [table.name for table in plan.tables] == [fitted_name(long, [IN_BYTES]), "短"]
    assert f"table {plan.tables[0].name} (from bank.{long}): live" in explain(plan)


@pytest.mark.parametrize(
    ("kind", "letter", "holds"),
    [("mariadb", "a", 64), ("mariadb", "中", 50), ("mysql", "a", 64), ("mysql", "中", 50), ("postgres", "中", 21)],
)
def test_a_destination_counts_names_as_its_server_does(kind: str, letter: str, holds: int) -> None:
    limit = sink_kind(kind).powers.names
    assert limit.takes(letter * holds)
    assert not limit.takes(letter * (holds + 1))
    assert limit.takes(fitted_name(letter * (holds + 1), [limit]))


MISTAKES = {
    "derived alike": (("a_b.c", "a.b_c"), "line 5 are both called `a_b_c`", "`as`"),
    "declared alike": (("account", "{name: sales.order, as: account}"), "line 5 are both called `account`", "`as`"),
    "the same table twice": (("account", "{name: main.account, as: konto}"), "already on line 5", "Keep one"),
    "the marker table": (("account", "{name: sales.x, as: seamline_marker}"), "is the marker table", "Take it out"),
    "too long for PostgreSQL": (("account", "sales." + "票" * 22), "no name in PostgreSQL", ""),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_two_tables_never_get_one_name(tmp_path: Path, mistake: str) -> None:
    tables, cause, cure = MISTAKES[mistake]
    fault = fault_of(tmp_path, *tables)
    assert fault.line == 6 and cause in fault.cause and cure in fault.cure, str(fault)


@pytest.mark.parametrize("kind", ["mariadb", "mysql"])
def test_a_database_that_the_source_does_not_read_is_refused(tmp_path: Path, kind: str) -> None:
    source = SOURCE.replace("kind: mariadb", f"kind: {kind}")
    assert f"kind: {kind}" in source
    fault = fault_of(tmp_path, "account", "sales.order", source=source)
    assert "database `sales` is none of those that source `core_bank` reads: bank" in fault.cause
    plan = plan_of(tmp_path, "account", "sales.order", source=f"{source}databases: [sales]\n")
    assert (plan.source.databases, plan.tables[1].name) == (("sales",), "sales_order")


@pytest.mark.parametrize("table", ["sales.order", "{name: account, as: konto}", "票" * 20 + "123456789"])
def test_a_kind_that_knows_no_other_places_is_given_own_names_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr(PostgresSource, "names_elsewhere", False)
    monkeypatch.setattr(PostgresSource, "refusal", lambda self, place: None)
    assert "gives its tables under their own names alone" in fault_of(tmp_path, "ledger", table).cause


def test_a_sum_and_a_derived_table_name_a_table_as_the_sync_calls_it(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "sales.order")
    file = folder / "syncs/settlement.yaml"
    total = "reconcile: {control_totals: [{table: NAME, sum: amount}]}\n"
    text = file.read_text(encoding="utf-8")
    file.write_text(text + total.replace("NAME", "sales_order"), encoding="utf-8")
    assert compile_plan(load_declarations(folder), "settlement").reconcile.control_totals[0].table == "sales_order"
    file.write_text(text + total.replace("NAME", "sales_orders"), encoding="utf-8")
    with pytest.raises(DeclarationsInvalid, match="Did you mean `sales_order`"):
        load_declarations(folder)


def test_what_a_sync_does_not_carry_has_no_name_of_its_tables() -> None:
    places = TablePlaces("main", [("order", "sales.order"), ("deal", "main.trade")])
    assert places.name("main", "account") == "account"
    assert places.name("main", "order") == "main.order", "not the one of sales"
    assert places.name("main", "trade") == "deal"
    assert places.name("hr", "order") == "hr.order"
    assert places.of_captured(places.captured("order")) == TablePlace("sales", "order")
    assert places.of_captured(places.captured("deal")) == TablePlace("main", "trade")


def test_a_place_in_another_case_may_be_the_same_table() -> None:
    places = TablePlaces("main", [("order", "sales.Order")])
    assert places.names_like("SALES", "ORDER") == ("SALES.ORDER", "order")
    assert places.names_like("sales", "Order") == ("order",)
    assert places.names_like("MAIN", "Account") == ("Account",), "as of the own namespace"
    assert places.names_like("main", "account") == ("account",)


def test_syncs_of_one_source_differ_only_in_their_places(tmp_path: Path) -> None:
    one, other = plan_of(tmp_path, "account").source, plan_of(tmp_path, "sales.order").source
    assert one != other and one.shared == other.shared == replace(other, elsewhere=(), name_limits=())
