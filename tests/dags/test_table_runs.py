"""Runs that change the tables of running streams: what they write down, and from when on others go by it."""

from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from seamline.domain.cutover import Boundary
from seamline.domain.errors import Refused
from seamline.domain.ledger import LedgerRow
from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.runs import PUBLISH, TABLES, RunKind, SyncState
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import SyncPlan, TablePlan
from seamline_airflow import cutover_state, runs
from seamline_airflow.operators.step import TablesPreflightOperator, WantStreamOperator
from tests.dags import results
from tests.dags.test_runs import context
from tests.dags.test_runs import platform as platform


def ledger(*tables: str) -> LedgerRow:
    boundaries = tuple(Boundary(table, results.POSITION, ended=True) for table in tables)
    return LedgerRow(results.STREAM, "t", "t-1", 5, results.POSITION, 3, 0, 0, boundaries)


CARRIED = {"warehouse": ledger("account", "ledger_entry")}
CHANGED = "settlement/tables/-/manual__3"


def with_fees() -> SyncPlan:
    return results.plan(
        tables=(*results.plan().tables, TablePlan("fees", None, replace(results.plan().table("account").definition)))
    )


def test_a_run_that_changes_the_tables_writes_down_what_enters_and_leaves(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    declared = replace(with_fees(), tables=with_fees().tables[1:])
    monkeypatch.setattr("seamline_airflow.onboarding.preflight", lambda plan, **_: (plan, ()))
    monkeypatch.setattr("seamline_airflow.onboarding.ledgers", lambda plan: CARRIED)
    operator = TablesPreflightOperator(task_id="preflight", run=CHANGED, plan_json=plan_to_json(declared))
    assert operator.execute(context(None, again=["ledger_entry"])) == CHANGED
    run = platform.runs[CHANGED]
    assert (run.kind, platform.state) == (RunKind.TABLES, SyncState.ENABLED)
    assert run.result[TABLES] == {"added": ["fees"], "again": ["ledger_entry"], "removed": ["account"]}


def test_nights_and_streams_take_the_new_tables_once_they_have_joined_and_not_before(
    platform: results.Platform,
) -> None:
    with pytest.raises(Refused, match="fees") as raised:
        runs.onboarded_plan(platform, with_fees())
    assert raised.value.hint == "run settlement__tables, or take the change back"
    runs.open_tables(platform, with_fees(), CHANGED, (), CARRIED)
    assert runs.onboarded_plan(platform, with_fees()) == results.plan(), "a night does not wait for a load"
    platform.put_result(CHANGED, PUBLISH, {"warehouse": str(results.POSITION)})
    assert {table.name for table in runs.onboarded_plan(platform, with_fees()).tables} >= {"fees"}
    assert WantStreamOperator(task_id="want", plan_json=plan_to_json(with_fees())).execute(context(None)) == [
        "settlement@warehouse"
    ]


def test_a_destination_that_joins_later_takes_no_other_back_to_the_tables_of_before(platform: results.Platform) -> None:
    """`account` leaves and `fees` comes. Streams go each by its own tables; what is for all, by those that all have."""
    archive = replace(results.destination_plan("archive", "archived"), name="archive")
    destinations = (*results.plan().destinations, archive)
    both = results.plan(destinations=destinations)
    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(both))
    platform.put_result("o", PUBLISH, {"warehouse": "p", "archive": "p"})
    declared = replace(with_fees(), tables=with_fees().tables[1:], destinations=destinations)
    runs.open_tables(platform, declared, CHANGED, (), {**CARRIED, "archive": CARRIED["warehouse"]})

    def of_streams() -> dict[str, set[str]]:
        platform.wants.clear()
        WantStreamOperator(task_id="want", plan_json=plan_to_json(declared)).execute(context(None))
        return {stream.destination: set(plan_from_json(text).table_names) for stream, text in platform.wants}

    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p"})
    platform.finish_run(CHANGED, state="failed")
    assert of_streams() == {"warehouse": {"ledger_entry", "fees"}, "archive": {"account", "ledger_entry"}}
    assert runs.onboarded_plan(platform, declared).table_names == {"ledger_entry"}
    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p", "archive": "p"})
    assert of_streams() == {"warehouse": {"ledger_entry", "fees"}, "archive": {"ledger_entry", "fees"}}
    assert runs.onboarded_plan(platform, declared).table_names == {"ledger_entry", "fees"}


def test_each_destination_goes_by_the_transform_of_its_own_load_until_a_changed_one_has_joined_in_all(
    platform: results.Platform,
) -> None:
    archive = replace(results.destination_plan("archive", "archived"), name="archive")
    both = results.plan(destinations=(*results.plan().destinations, archive))
    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(both))
    platform.put_result("o", PUBLISH, {"warehouse": "p", "archive": "p"})
    account, entry = both.tables
    made = RowTransform("include/transforms/account.sql", "SELECT * FROM account", account.definition)
    declared = replace(both, tables=(replace(account, transform=made), entry))
    runs.open_tables(platform, declared, CHANGED, ("account",), {**CARRIED, "archive": CARRIED["warehouse"]})

    def transforms() -> dict[str, tuple[RowTransform | None, RowTransform | None]]:
        # As a comparison and a cut of live tables have it, and as a stream has it.
        compared = plan_from_json(plan_to_json(runs.onboarded_plan(platform, declared)))
        streams = {name: runs.stream_plan(platform, declared, name) for name in ("warehouse", "archive")}
        return {
            name: (compared.held_by(name).table("account").transform, stream.table("account").transform)
            for name, stream in streams.items()
        }

    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p"})
    platform.finish_run(CHANGED, state="failed")
    assert transforms() == {"warehouse": (made, made), "archive": (None, None)}
    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p", "archive": "p"})
    assert transforms() == {"warehouse": (made, made), "archive": (made, made)}


def test_a_transform_of_one_destination_stays_its_own_and_a_change_of_it_alters_the_table_there(
    platform: results.Platform,
) -> None:
    account, entry = results.plan().tables
    first, second = (RowTransform("include/transforms/account.sql", text, account.definition) for text in "ab")
    (warehouse,) = results.plan().destinations

    def declared(transform: RowTransform) -> SyncPlan:
        lake = replace(warehouse, name="lake", namespace="lake", transforms=(("account", transform),))
        return results.plan(destinations=(warehouse, lake))

    platform.start_run(run_id="o", sync="settlement", kind="onboard", plan_json=plan_to_json(declared(first)))
    platform.put_result("o", PUBLISH, {"warehouse": "p", "lake": "p"})
    # An edit counts once the table is loaded again.
    found = runs.onboarded_plan(platform, declared(second))
    assert found.table("account").transform is None
    assert {name: found.held_by(name).table("account").transform for name in ("warehouse", "lake")} == {
        "warehouse": None, "lake": first
    }  # fmt: skip
    assert runs.stream_plan(platform, declared(second), "warehouse").table("account").transform is None
    assert runs.stream_plan(platform, declared(second), "lake").table("account").transform == first
    literal = Expression("literal", "bigint", value="1")
    third = replace(second, columns=(literal,))
    carried = {**CARRIED, "lake": CARRIED["warehouse"]}
    with pytest.raises(Refused, match="account of settlement had another schema, or another transform"):
        runs.open_tables(platform, declared(third), CHANGED, ("ledger_entry",), carried)
    with pytest.raises(Refused, match="account of settlement had another schema, or another transform") as raised:
        runs.open_tables(platform, declared(third), CHANGED, (), carried)
    assert raised.value.hint == "account: run `settlement__tables` and name it under `again`"
    runs.open_tables(platform, declared(third), CHANGED, ("account",), carried)
    assert platform.runs[CHANGED].result[TABLES]["again"] == ["account"]


def test_an_unchanged_list_is_refused_with_what_to_do(platform: results.Platform) -> None:
    with pytest.raises(Refused, match="exactly the declared tables") as raised:
        runs.open_tables(platform, results.plan(), CHANGED, (), CARRIED)
    assert "`again`" in raised.value.hint


def test_a_run_that_joined_and_died_before_it_said_so_says_so_when_it_is_cleared(platform: results.Platform) -> None:
    runs.open_tables(platform, with_fees(), CHANGED, (), CARRIED)
    joined = {"warehouse": ledger("account", "ledger_entry", "fees")}
    runs.open_tables(platform, with_fees(), CHANGED, (), joined)
    assert platform.runs[CHANGED].result[TABLES] == {"added": [], "again": [], "removed": []}


def test_the_tables_of_a_sync_that_is_not_enabled_are_not_changed(platform: results.Platform) -> None:
    platform.state = SyncState.ONBOARDING
    with pytest.raises(Refused, match="has not ended"):
        runs.open_tables(platform, with_fees(), CHANGED, (), CARRIED)


def test_tables_whose_schema_changed_since_their_load_are_refused_with_the_cure(
    platform: results.Platform,
) -> None:
    account, entry = results.plan().tables
    wider = replace(
        account, table=replace(account.definition, columns=(*account.definition.columns, entry.definition.columns[1]))
    )
    with pytest.raises(Refused, match="account of settlement had another schema") as raised:
        runs.open_tables(platform, replace(with_fees(), tables=(wider, *with_fees().tables[1:])), CHANGED, (), CARRIED)
    assert "parked" in raised.value.hint
    with pytest.raises(Refused, match="account of settlement had another schema") as raised:
        runs.open_tables(platform, results.plan(tables=(wider, entry)), CHANGED, (), CARRIED)
    assert "parked" in raised.value.hint


def test_a_run_that_adds_a_table_keeps_what_is_known_of_the_loads_of_the_others(platform: results.Platform) -> None:
    """By the origin of its load a stream notices later that a table was altered there and back."""
    tables = (replace(one, table=replace(one.definition, origin="of now")) for one in with_fees().tables)
    runs.open_tables(platform, replace(with_fees(), tables=tuple(tables)), CHANGED, (), CARRIED)
    origins = {table.name: table.definition.origin for table in platform.runs[CHANGED].plan.tables}
    loaded = {table.name: table.definition.origin for table in results.plan().tables}
    assert "of now" not in loaded.values()
    assert origins == {**loaded, "fees": "of now"}


def test_the_cutover_of_joined_tables_is_the_end_of_their_boundaries() -> None:
    run = results.run(result={"tables": {"added": ["fees"], "again": [], "removed": ["account"]}})
    open_still = replace(ledger("fees"), boundaries=(Boundary("fees", results.POSITION), *ledger("entry").boundaries))
    for row, is_reached in ((ledger("entry", "fees"), True), (open_still, False), (ledger("entry"), True)):
        sink = SimpleNamespace(read_ledger=lambda stream, row=row: row)
        state = cutover_state.judge(run, sink_of=lambda name, sink=sink: nullcontext(sink), reports={})  # type: ignore[misc]
        assert state.is_reached == is_reached


def test_another_schema_of_an_onboarded_destination_is_refused_before_anything_is_written_there(
    platform: results.Platform,
) -> None:
    """Tables of those names in it are somebody else's, and the ledger would take them for its own."""
    (warehouse,) = results.plan().destinations
    moved = replace(results.plan(), destinations=(replace(warehouse, namespace="finance"),))
    for opened in (
        lambda: runs.onboarded_plan(platform, moved),
        lambda: runs.open_onboarding(platform, moved, "settlement/onboard/-/manual__2"),
        lambda: runs.open_tables(platform, moved, "settlement/tables/-/manual__2", ["account"], CARRIED),
    ):
        with pytest.raises(Refused, match=f"with schema {warehouse.namespace}, and is declared with finance"):
            opened()
    another = replace(results.plan(), destinations=(replace(warehouse, name="elsewhere", namespace="finance"),))
    assert runs.onboarded_plan(platform, another).destinations == another.destinations
