"""The plan is a function of declarations and catalogue, crosses as JSON, and explain prints the stages that run."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.domain import installed
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import Refused
from seamline.kinds.sink import Atomic, SinkPowers
from seamline.plan.checks import Says
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.stages import RunsIn, all_stages
from seamline.ports import Problem, Survey
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import Declarations, load_declarations
from tests.unit.declared import DESTINATION, SOURCE, SUITE, SYNC, write_declarations
from tests.unit.test_declarations import NATIVE, OF_NATIVE

ACCOUNT = Table("account", (Column("id", Kind.INTEGER, "bigint(20)", nullable=False, length=64),), ("id",))
LEDGER = Table(
    "ledger_entry",
    (
        Column("id", Kind.INTEGER, "bigint(20)", nullable=False, length=64),
        Column("account_id", Kind.INTEGER, "bigint(20)", nullable=False, length=64),
        Column("currency", Kind.CHAR, "char(3)", length=3),
        Column("amount", Kind.DECIMAL, "decimal(20,4)", precision=20, scale=4),
        Column("rate", Kind.DOUBLE, "double"),
        Column("exact", Kind.DECIMAL, "numeric"),
        Column("booked_at", Kind.INSTANT, "timestamp(6)", precision=6),
        Column("value_date", Kind.DATE, "date"),
    ),
    ("id",),
)


# A sink that keeps no table without a key; else as PostgreSQL.
class KeyedOnly:
    powers = SinkPowers(Atomic.TABLE, keyless=False)


@pytest.fixture
def declarations(tmp_path: Path) -> Declarations:
    return load_declarations(write_declarations(tmp_path))


def declared(folder: Path, before: str, after: str) -> Declarations:
    assert before in SYNC
    return load_declarations(write_declarations(folder, {"syncs/settlement.yaml": SYNC.replace(before, after, 1)}))


def test_a_plan_that_was_stored_with_the_schemas_of_destinations_is_read(declarations: Declarations) -> None:
    plan = compile_plan(declarations, "settlement")
    stored = json.loads(plan_to_json(plan))
    for entry in stored["destinations"]:
        entry["schema"] = entry.pop("namespace")
    assert plan_from_json(json.dumps(stored)) == plan


def test_a_plan_that_was_stored_before_approvers_were_declared_is_read(declarations: Declarations) -> None:
    plan = compile_plan(declarations, "settlement")
    stored = json.loads(plan_to_json(plan))
    del stored["reconcile"]["approvers"]
    assert plan_from_json(json.dumps(stored)) == replace(plan, reconcile=replace(plan.reconcile, approvers=()))


def test_a_stream_writes_with_the_login_that_is_declared_for_it(tmp_path: Path) -> None:
    two = f"{DESTINATION}writer_connection: streamer\n"
    declared_two = load_declarations(write_declarations(tmp_path, {"destinations/warehouse.yaml": two}))
    plan = compile_plan(declared_two, "settlement", Survey((ACCOUNT, LEDGER)))
    beside = plan.incremental_plan(["account"], "1")
    assert {(one.connection, one.writer) for one in (*plan.destinations, *beside.destinations)} == {
        ("warehouse", "streamer")
    }
    assert "publishes as warehouse, streams as streamer;" in explain(plan)
    stored = json.loads(plan_to_json(plan))
    assert plan_from_json(json.dumps(stored)) == plan
    del stored["destinations"][0]["writer_connection"]
    assert [one.writer for one in plan_from_json(json.dumps(stored)).destinations] == ["warehouse"]


def test_a_plan_crosses_as_json_and_back(declarations: Declarations) -> None:
    for survey in (None, Survey((ACCOUNT, LEDGER))):
        plan = compile_plan(declarations, "settlement", survey)
        assert plan_from_json(plan_to_json(plan)) == plan
        assert plan_to_json(plan) == plan_to_json(compile_plan(declarations, "settlement", survey))


def test_what_is_left_out_gets_its_default(declarations: Declarations) -> None:
    plan = compile_plan(declarations, "settlement")
    source = plan.source
    assert (source.reader, source.capture, source.marker) == ("core_bank", "core_bank_capture", "core_bank")
    assert (source.log_topic, source.connector) == ("seamline.core_bank.log", "seamline-core_bank")
    assert [one.writer for one in plan.destinations] == ["warehouse"]
    assert plan.nightly is not None
    assert (plan.nightly.run_at_delay_minutes, plan.nightly.as_of_max_s) == (30, 7200.0)
    assert plan.guarantee == "exactly_once"


def test_a_plan_without_a_catalogue_refuses_to_give_definitions(declarations: Declarations) -> None:
    with pytest.raises(Refused, match="no catalogue"):
        _ = compile_plan(declarations, "settlement").table("account").definition
    assert compile_plan(declarations, "settlement", Survey((ACCOUNT, LEDGER))).table("account").definition is ACCOUNT


MISFITS = {
    "unknown date column": ("column: booked_at", "column: bookd_at", 6, "no column `bookd_at`", "`booked_at`?"),
    "not a date": ("as: instant", "as: date", 6, "is timestamp(6); as: date needs date", ""),
    "an instant is not local time": ("as: instant", "as: local", 6, "as: local needs datetime", ""),
    "a date is not an instant": ("column: booked_at", "column: value_date", 6, "as: instant needs", ""),
    "unknown sum": ("sum: amount, by: [currency]", "sum: amout, by: [currency]", 11, "no column `amout`", "`amount`?"),
    "sum of a float": ("sum: amount, by: [currency]", "sum: rate", 11, "is double; a sum that must be equal", ""),
    "hash total of a float": ("sum: amount, by: [currency]", "hash: rate", 11, "is double; a hash total needs", ""),
    "unknown column of a balance": (
        "  control_totals:\n",
        "  rules: [{name: r, table: ledger_entry, balance: {amount: amout, by: [id]}}]\n  control_totals:\n",
        10,
        "no column `amout`",
        "`amount`?",
    ),
    "unknown group of a balance": (
        "  control_totals:\n",
        "  rules: [{name: r, table: ledger_entry, balance: {amount: amount, by: [currncy]}}]\n  control_totals:\n",
        10,
        "no column `currncy`",
        "`currency`?",
    ),
    "unknown sensitive column": (
        "  - account\n",
        "  - {name: account, sensitive: [idd]}\n",
        5,
        "table account has no column `idd`",
        "`id`?",
    ),
    "group that the movements lack": (
        "  control_totals:\n",
        "  rules: [{name: r, table: ledger_entry, roll_forward: {amount: amount, by: [currency], movements:"
        " {table: account, amount: id}}}]\n  control_totals:\n",
        10,
        "table account has no column `currency`",
        "",
    ),
    "sequence of no number": (
        "  control_totals:\n",
        "  rules: [{name: r, table: ledger_entry, sequence: {column: amount}}]\n  control_totals:\n",
        10,
        "is decimal(20,4); a sequence needs",
        "",
    ),
    "unique float": (
        "  control_totals:\n",
        "  rules: [{name: r, table: ledger_entry, unique: [rate]}]\n  control_totals:\n",
        10,
        "is double; a row that is like no other needs",
        "",
    ),
    "unknown group": ("by: [currency]", "by: [curency]", 11, "no column `curency`", "`currency`?"),
    "derived sum without a bound": (
        "sum: amount, by: [a",
        "sum: exact, by: [a",
        14,
        "is numeric without a precision",
        "another",
    ),
    "unknown group of a derived": ("by: [account_id,", "by: [acount_id,", 14, "no column", "`account_id`?"),
}


def test_a_control_total_may_add_up_a_column_without_a_precision(tmp_path: Path) -> None:
    plan = compile_plan(
        declared(tmp_path, "sum: amount, by: [c", "sum: exact, by: [c"), "settlement", Survey((ACCOUNT, LEDGER))
    )
    assert [total.column for total in plan.reconcile.control_totals] == ["exact"]


@pytest.mark.parametrize("misfit", MISFITS)
def test_what_the_catalogue_denies_is_reported_at_its_line(tmp_path: Path, misfit: str) -> None:
    before, after, line, cause, cure = MISFITS[misfit]
    declarations = declared(tmp_path, before, after)
    with pytest.raises(DeclarationsInvalid) as caught:
        compile_plan(declarations, "settlement", Survey((ACCOUNT, LEDGER)))
    (fault,) = caught.value.faults
    assert fault.file.name == "settlement.yaml"
    assert fault.line == line
    assert cause in fault.cause
    assert cure in fault.cure


@pytest.mark.parametrize(
    ("kwargs", "argument", "column"),
    [
        ("{column: idd}", "column", "idd"),
        ("{column_A: id, column_B: acount_id}", "column_B", "acount_id"),
        ("{column_list: [id, idd]}", "column_list", "idd"),
    ],
)
def test_a_check_of_a_column_that_the_table_lacks_is_reported_at_its_line(
    tmp_path: Path, kwargs: str, argument: str, column: str
) -> None:
    folder = write_declarations(tmp_path, {"expectations/settlement.yaml": SUITE.replace("{column: id}", kwargs)})
    with pytest.raises(DeclarationsInvalid) as caught:
        compile_plan(load_declarations(folder), "settlement", Survey((ACCOUNT, LEDGER)))
    (fault,) = caught.value.faults
    assert (fault.file.relative_to(folder), fault.line) == (Path("expectations/settlement.yaml"), 3)
    assert fault.path == f"checks[0].kwargs.{argument}"
    assert (fault.cause, fault.cure[:12]) == (f"table ledger_entry has no column `{column}`", "Did you mean")


def test_a_check_that_great_expectations_wrote_is_reported_at_its_line_too(tmp_path: Path) -> None:
    suite = NATIVE.replace('"column": "id"', '"column": "idd"')
    declarations = load_declarations(write_declarations(tmp_path, {**OF_NATIVE, "expectations/native.json": suite}))
    with pytest.raises(DeclarationsInvalid) as caught:
        compile_plan(declarations, "settlement", Survey((ACCOUNT, LEDGER)))
    (fault,) = caught.value.faults
    assert (fault.file.name, fault.line, fault.path) == ("native.json", 7, "expectations[0].kwargs.column")


def test_a_check_may_write_a_column_as_great_expectations_finds_it(tmp_path: Path) -> None:
    suite = SUITE.replace("{column: id}", """{column_list: [ID, '"amount"', "`rate`"]}""")
    declarations = load_declarations(write_declarations(tmp_path, {"expectations/settlement.yaml": suite}))
    compile_plan(declarations, "settlement", Survey((ACCOUNT, LEDGER)))


def test_what_the_source_says_of_a_table_is_reported_at_its_line_beside_all_else(tmp_path: Path) -> None:
    declarations = declared(tmp_path, "sum: amount, by: [c", "sum: amout, by: [c")
    unknown = Problem("there is no table `account`, did you mean `accounts`?", "correct `tables`", table="account")
    with pytest.raises(DeclarationsInvalid) as caught:
        compile_plan(declarations, "settlement", Survey((LEDGER,), (unknown,)))
    assert [(fault.line, fault.path, fault.cause) for fault in caught.value.faults] == [
        (5, "tables[0]", unknown.what),
        (11, "reconcile.control_totals[0].sum", "table ledger_entry has no column `amout`"),
    ]
    assert "settlement.yaml:5  tables[0]: there is no table `account`, did you mean `accounts`? correct" in str(
        caught.value
    )


def test_the_config_hash_follows_what_is_declared_and_nothing_else(tmp_path: Path) -> None:
    before = config_hash(load_declarations(write_declarations(tmp_path)), "settlement")
    spelled_out = SYNC.replace("nightly:\n", "guarantee: exactly_once  # the default\nnightly:\n  as_of_max: 120min\n")
    assert config_hash(declared_as(tmp_path, spelled_out), "settlement") == before
    assert config_hash(declared_as(tmp_path, SYNC.replace("Shanghai", "Tokyo")), "settlement") != before
    write_declarations(tmp_path, {"sources/core_bank.yaml": SOURCE + "snapshot: {lock: brief}\n"})
    assert config_hash(load_declarations(tmp_path), "settlement") != before


def declared_as(folder: Path, sync: str) -> Declarations:
    return load_declarations(write_declarations(folder, {"syncs/settlement.yaml": sync}))


def test_explain_prints_every_stage_of_every_dag(declarations: Declarations) -> None:
    plan = compile_plan(declarations, "settlement")
    text = explain(plan)
    for kind, stages in all_stages(plan).items():
        assert f"settlement__{kind}  (" in text
        for number, stage in enumerate(stages, 1):
            assert f"  {number}. {stage.id}" in text
            assert stage.title in text
    assert "daily_balance: sum of ledger_entry.amount by account_id, currency" in text


def test_a_stage_that_is_not_run_is_not_listed(declarations: Declarations) -> None:
    plan = compile_plan(declarations, "settlement")
    assert "approve" in [stage.id for stage in all_stages(plan)["nightly"]]
    first = all_stages(plan)["nightly"][0]
    assert (first.id, first.runs_in, "00:00 Asia/Shanghai" in first.does) == ("open", RunsIn.AIRFLOW, True)
    fails = replace(plan, reconcile=replace(plan.reconcile, on_break="fail", expectations=""))
    assert "approve" not in [stage.id for stage in all_stages(fails)["nightly"]]
    assert "nightly" not in all_stages(replace(plan, nightly=None))


def test_a_stage_names_a_job_exactly_when_it_runs_in_spark(declarations: Declarations) -> None:
    for stages in all_stages(compile_plan(declarations, "settlement")).values():
        assert len({stage.id for stage in stages}) == len(stages)
        for stage in stages:
            assert bool(stage.job) == (stage.runs_in is RunsIn.SPARK)


def test_a_table_without_a_key_is_refused_where_a_destination_keeps_no_such_table(
    declarations: Declarations, monkeypatch: pytest.MonkeyPatch
) -> None:
    keyless = replace(ACCOUNT, key=())
    compile_plan(declarations, "settlement", Survey((keyless, LEDGER)))
    monkeypatch.setattr(installed, "load", lambda group, name: KeyedOnly())
    compile_plan(declarations, "settlement", Survey((ACCOUNT, LEDGER)))
    with pytest.raises(
        DeclarationsInvalid, match="account: destination `warehouse` .postgres. keeps no table without a primary key"
    ):
        compile_plan(declarations, "settlement", Survey((keyless, LEDGER)))


RULES = """
  rules:
    - {name: double entry, table: ledger_entry, balance: {amount: amount, by: [account_id, currency]}}
    - name: customer money
      table: account
      roll_forward: {amount: id, movements: {table: ledger_entry, amount: amount}}
    - {name: numbers, table: ledger_entry, sequence: {column: account_id, by: [currency], gaps: report}}
    - {name: once, table: ledger_entry, unique: [value_date, currency]}
  control_totals:
    - {table: account, hash: id}
    - {table: account}
"""


def test_rules_and_totals_cross_with_the_plan_and_each_rule_brings_its_own_totals(tmp_path: Path) -> None:
    declarations = declared(tmp_path, "  control_totals:\n", RULES[1:])
    plan = compile_plan(declarations, "settlement", Survey((ACCOUNT, LEDGER)))
    assert plan_from_json(plan_to_json(plan)) == plan
    assert [(rule.says, rule.columns, rule.by) for rule in plan.reconcile.rules] == [
        (Says.BALANCE, ("amount",), ("account_id", "currency")),
        (Says.ROLL_FORWARD, ("id",), ()),
        (Says.UNIQUE, ("currency", "account_id"), ()),
        (Says.UNIQUE, ("value_date", "currency"), ()),
    ]
    assert [total.label for total in plan.reconcile.control_totals] == [
        "hash total of id",
        "",
        "amount",
        "closing of customer money: id",
        "movements of customer money: amount",
        "missing numbers of account_id",
        "duplicates of account_id",
        "duplicates of value_date, currency",
    ]
    alone = plan.only({"ledger_entry"})
    assert Says.ROLL_FORWARD not in {rule.says for rule in alone.reconcile.rules}, "its closing is not in the plan"


def test_rules_are_about_cuts_and_each_is_named_in_what_a_night_does(tmp_path: Path) -> None:
    declarations = declared(tmp_path, "  control_totals:\n", RULES[1:])
    said = " ".join(explain(compile_plan(declarations, "settlement")).split())
    assert "; double entry holds; customer money holds" in said
    no_night = SYNC.replace("  control_totals:\n", RULES[1:]).partition("derived:")[0]
    no_night = no_night.replace("nightly:\n  timezone: Asia/Shanghai\n", "")
    with pytest.raises(DeclarationsInvalid, match="rules are about the nightly cut"):
        load_declarations(write_declarations(tmp_path / "live", {"syncs/settlement.yaml": no_night}))


def test_a_plan_without_rules_has_the_text_that_it_had_before_there_were_any(declarations: Declarations) -> None:
    stored = json.loads(plan_to_json(compile_plan(declarations, "settlement")))
    assert "rules" not in stored["reconcile"]
    assert stored["reconcile"]["control_totals"] == [{"table": "ledger_entry", "column": "amount", "by": ["currency"]}]
