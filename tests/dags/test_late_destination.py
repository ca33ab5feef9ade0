"""A destination that is declared after its sync was onboarded: it is loaded by itself, and the others do not notice."""

from dataclasses import replace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.row_transform import RowTransform
from seamline.domain.runs import INTO, PUBLISH, RunKind, SyncState
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.model import Run, SyncPlan, TablePlan
from seamline.ports import WantedStream
from seamline_airflow import runs
from seamline_airflow.operators.step import (
    EnableOperator,
    PreflightOperator,
    PublishOperator,
    StartStreamOperator,
    TablesPreflightOperator,
    WantStreamOperator,
)
from tests.dags import results
from tests.dags.test_runs import context
from tests.dags.test_runs import platform as platform
from tests.dags.test_table_runs import CHANGED, ledger

FIRST = "settlement/onboard/-/manual__0"
LATE = "settlement/onboard/-/manual__2"
ARCHIVE = replace(results.destination_plan("archive", "archived"), name="archive")


def with_archive(**changes: Any) -> SyncPlan:
    return results.plan(destinations=(*results.plan().destinations, ARCHIVE), config_hash="new", **changes)


@pytest.fixture(autouse=True)
def onboarded(platform: results.Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    platform.start_run(run_id=FIRST, sync="settlement", kind=RunKind.ONBOARD, plan_json=plan_to_json(results.plan()))
    platform.put_result(FIRST, PUBLISH, {"warehouse": "p"})
    monkeypatch.setattr("seamline_airflow.onboarding.preflight", lambda plan, **_: (plan, ()))


def publish(run: Run, records: results.Platform) -> dict[str, str]:
    records.put_result(run.run_id, PUBLISH, {one.name: "p" for one in run.plan.destinations})
    return {}


def preflight(plan: SyncPlan, **parameters: Any) -> str:
    return str(
        PreflightOperator(task_id="preflight", run=LATE, plan_json=plan_to_json(plan)).execute(
            context(None, **parameters)
        )
    )


def test_an_onboarding_goes_into_what_was_declared_since_and_leaves_the_others_enabled(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = platform.runs[preflight(with_archive())]
    assert ([one.name for one in run.plan.destinations], run.result[INTO]) == (["archive"], ["archive"])
    monkeypatch.setattr("seamline_airflow.onboarding.publish", publish)
    PublishOperator(task_id="publish", run=LATE).execute({})
    assert platform.state is SyncState.ENABLED, "nights of the others go on"
    assert StartStreamOperator(task_id="start_stream", run=LATE).execute({}) == ["settlement@archive"]
    assert [str(stream) for stream, _ in platform.wants] == ["settlement@archive"]


def test_once_it_is_there_the_next_onboarding_goes_into_all_and_one_asked_for_into_that(
    platform: results.Platform,
) -> None:
    platform.put_result(preflight(with_archive()), PUBLISH, {"archive": "p"})
    assert runs.to_onboard(platform, with_archive(), ()) == ("warehouse", "archive")
    assert runs.to_onboard(platform, with_archive(), ["archive"]) == ("archive",)
    with pytest.raises(Refused, match="vault: no destination of settlement"):
        runs.to_onboard(platform, with_archive(), ["vault"])


def test_a_retry_goes_where_its_first_attempt_went_whatever_was_declared_since(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It read the declarations again, found nothing new, and loaded everything once more."""
    fail_the_first_attempt(monkeypatch, with_archive())
    with pytest.raises(AirflowFailException, match=r"archive: not declared any more(?s:.*)run \w+__onboard again"):
        preflight(results.plan())
    # Or it is gone from the file that preflight reads, and Airflow has not seen it yet.
    monkeypatch.setattr("seamline_airflow.onboarding.preflight", lambda plan, **_: (results.plan(), ()))
    with pytest.raises(AirflowFailException, match="archive: not declared any more"):
        preflight(with_archive())
    assert PUBLISH not in platform.runs[LATE].result
    monkeypatch.setattr("seamline_airflow.onboarding.preflight", lambda plan, **_: (plan, ()))
    mart = replace(ARCHIVE, name="mart", namespace="mart")
    run = platform.runs[preflight(replace(with_archive(), destinations=(*with_archive().destinations, mart)))]
    assert (sorted(run.plan.destination_names), run.result[INTO]) == (["archive"], ["archive"])


def test_a_run_that_is_cleared_after_it_published_goes_into_the_same_destinations_again(
    platform: results.Platform,
) -> None:
    platform.put_result(preflight(with_archive()), PUBLISH, {"archive": "p"})
    run = platform.runs[preflight(with_archive())]
    assert (run.run_id, run.result[INTO]) == (f"{LATE}~2", ["archive"])


def fail_the_first_attempt(monkeypatch: pytest.MonkeyPatch, plan: SyncPlan) -> None:
    def fail(_: SyncPlan, **__: Any) -> Any:
        raise TransientError("the destination does not answer")

    with monkeypatch.context() as patch:
        patch.setattr("seamline_airflow.onboarding.preflight", fail)
        with pytest.raises(AirflowException, match="does not answer"):
            preflight(plan)


def test_a_sync_that_is_not_enabled_is_onboarded_as_a_whole(platform: results.Platform) -> None:
    platform.state = SyncState.ONBOARDING
    assert runs.to_onboard(platform, with_archive(), ()) == ("warehouse", "archive")


def test_nights_streams_and_changes_of_tables_wait_for_no_destination_that_is_not_onboarded(
    platform: results.Platform,
) -> None:
    declared = with_archive()
    assert [one.name for one in runs.onboarded_plan(platform, declared).destinations] == ["warehouse"]
    assert runs.watched(platform, "settlement", ["warehouse", "archive"]) == ("warehouse",)
    operator = TablesPreflightOperator(task_id="preflight", run=FIRST, plan_json=plan_to_json(declared))
    assert [one.name for one in operator.concerned(context(None), platform, declared).destinations] == ["warehouse"]


def test_the_stream_of_another_destination_is_not_started_again_for_it(platform: results.Platform) -> None:
    wanted = WantStreamOperator(task_id="want", plan_json=plan_to_json(results.plan())).execute(context(None))
    assert wanted == ["settlement@warehouse"]
    (before,) = platform.wants
    platform.wants.clear()
    source = replace(results.plan().source, name_limits=((63, "bytes"), (64, "characters")))
    declared = with_archive(source=source, tables=of_now())
    platform.put_result(preflight(declared), PUBLISH, {"archive": "p"})
    want(platform, declared)
    assert platform.wants[0] == before
    assert [str(stream) for stream, _ in platform.wants] == ["settlement@warehouse", "settlement@archive"]


def test_a_column_keeps_the_name_of_its_load_whatever_destination_is_declared_since_or_taken_out(
    platform: results.Platform,
) -> None:
    """By the limit of names at a destination of before, which the sync has no more."""
    table, *rest = results.plan().tables
    id_, *columns = table.definition.columns
    fitted = replace(table, table=replace(table.definition, columns=(replace(id_, source_name="号" * 30), *columns)))
    plan = results.plan(tables=(fitted, *rest))
    loaded = replace(plan, source=replace(plan.source, name_limits=((63, "bytes"),)))
    platform.start_run(run_id=FIRST, sync="settlement", kind=RunKind.ONBOARD, plan_json=plan_to_json(loaded))
    declared = replace(plan, source=replace(plan.source, name_limits=((64, "characters"), (1, "bytes"))))
    for found in (runs.onboarded_plan(platform, declared), runs.stream_plan(platform, declared, "warehouse")):
        assert found.source.name_limits == ((63, "bytes"),)


def test_the_stream_into_a_destination_that_was_taken_out_ends(platform: results.Platform) -> None:
    others = [StreamId("settlement", "vault"), StreamId("payments", "vault")]
    here = WantedStream(results.STREAM, plan_to_json(results.plan().of_stream("warehouse")), 1)
    platform.wanted_streams = (here, *(WantedStream(one, "", 1) for one in others))
    assert want(platform, results.plan()) == []
    assert [str(one.stream) for one in platform.wanted_streams] == ["settlement@warehouse", "payments@vault"]


def test_each_stream_goes_by_the_loads_of_its_own_destination(platform: results.Platform) -> None:
    """By the origin of its load a stream notices that a table was replaced: a load elsewhere does not make it good."""
    platform.put_result(preflight(with_archive(tables=of_now())), PUBLISH, {"archive": "p"})
    assert origins(want(platform)) == {"settlement@warehouse": {""}, "settlement@archive": {"of now"}}
    fees = TablePlan("fees", None, replace(results.plan().table("account").definition, origin="of fees"))
    ledgers = {"warehouse": ledger("account", "ledger_entry"), "archive": ledger("account", "ledger_entry")}
    declared = with_archive(tables=(*of_now(), fees))
    runs.open_tables(platform, declared, CHANGED, (), ledgers)
    changed = plan_from_json(plan_to_json(platform.runs[CHANGED].plan))
    joined = {name: changed.of_stream(name) for name in ("warehouse", "archive")}
    assert {name: [table.definition.origin for table in one.tables] for name, one in joined.items()} == {
        "warehouse": ["", "", "of fees"],
        "archive": ["of now", "of now", "of fees"],
    }
    platform.put_result(CHANGED, PUBLISH, {"warehouse": "p", "archive": "p"})
    assert origins(want(platform, declared)) == {
        "settlement@warehouse": {"", "of fees"},
        "settlement@archive": {"of now", "of fees"},
    }


def of_now() -> tuple[TablePlan, ...]:
    return tuple(replace(one, table=replace(one.definition, origin="of now")) for one in results.plan().tables)


def want(platform: results.Platform, declared: SyncPlan | None = None) -> list[tuple[StreamId, str]]:
    platform.wants.clear()
    WantStreamOperator(task_id="want", plan_json=plan_to_json(declared or with_archive())).execute(context(None))
    return platform.wants


def origins(wants: list[tuple[StreamId, str]]) -> dict[str, set[str]]:
    return {str(stream): {one.definition.origin for one in plan_from_json(text).tables} for stream, text in wants}


def test_it_begins_with_the_tables_that_the_others_have(platform: results.Platform) -> None:
    fewer = with_archive(tables=results.plan().tables[:1])
    with pytest.raises(Refused, match="differ from those that were onboarded: ledger_entry"):
        runs.open_onboarding(platform, fewer.into(["archive"]), LATE, beside=fewer.into(["warehouse"]))
    account, *rest = with_archive().tables
    wider = replace(account, table=replace(account.definition, key=("id", "balance")))
    other = with_archive(tables=(wider, *rest))
    with pytest.raises(Refused, match="account of settlement had another schema"):
        runs.open_onboarding(platform, other.into(["archive"]), LATE, beside=other.into(["warehouse"]))


def test_it_may_hold_a_table_by_a_transform_of_its_own_where_those_of_the_others_stay_as_they_were_loaded(
    platform: results.Platform,
) -> None:
    """What is declared of the others was not analysed: its text says whether it is what they were loaded with."""
    account, entry = results.plan().tables
    masked, edited = (RowTransform("include/transforms/account.sql", text) for text in ("SELECT 1", "SELECT 2"))
    loaded = replace(account, transform=replace(masked, target=account.definition))
    before = results.plan(tables=(loaded, entry))
    platform.runs[FIRST] = replace(platform.runs[FIRST], plan=before)

    def open_beside(transform: RowTransform | None) -> None:
        (warehouse,) = results.plan().destinations
        others = replace(warehouse, transforms=(("account", transform),))
        beside = results.plan(destinations=(others,))
        runs.open_onboarding(platform, with_archive().into(["archive"]), LATE, beside=beside)

    for transform in (edited, None):
        with pytest.raises(Refused, match="account of settlement had another schema, or another transform"):
            open_beside(transform)
    open_beside(masked)
    assert platform.runs[LATE].result[INTO] == ["archive"]


def test_what_a_destination_that_was_taken_out_has_carried_keeps_no_later_one_out(platform: results.Platform) -> None:
    vault = replace(ARCHIVE, name="vault", namespace="kept")
    before = results.plan(destinations=(vault,), tables=results.plan().tables[:1])
    platform.start_run(run_id="gone", sync="settlement", kind=RunKind.ONBOARD, plan_json=plan_to_json(before))
    platform.put_result("gone", PUBLISH, {"vault": "p"})
    assert platform.runs[preflight(with_archive())].result[INTO] == ["archive"]


def test_a_destination_of_cuts_only_is_checked_and_neither_loaded_nor_streamed_to(
    platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    cuts_only = replace(ARCHIVE, cuts_only=True)
    declared = results.plan(destinations=(*results.plan().destinations, cuts_only), config_hash="new")
    checked: list[str] = []

    def looked_at(plan: SyncPlan, *, beside: Any = (), misfits: Any) -> Any:  # noqa: ARG001
        checked.extend(one.name for one in (*plan.destinations, *beside))
        return plan, ()

    monkeypatch.setattr("seamline_airflow.onboarding.preflight", looked_at)
    run = platform.runs[preflight(declared)]
    assert checked == ["warehouse", "archive"]
    assert ([one.name for one in run.plan.destinations], run.result[INTO]) == (["warehouse"], [])
    assert runs.onboarded_plan(platform, declared).destination_names == {"warehouse", "archive"}, "of nights"
    WantStreamOperator(task_id="want", plan_json=plan_to_json(declared)).execute({})
    assert {str(stream) for stream, _ in platform.wants} == {"settlement@warehouse"}


def test_a_sync_without_live_tables_is_enabled_by_its_preflight_s_tables(platform: results.Platform) -> None:
    platform.runs.clear()
    platform.state = None
    declared = results.plan(destinations=(replace(ARCHIVE, cuts_only=True),))
    with pytest.raises(Refused, match="was never onboarded"):
        runs.onboarded_plan(platform, declared)
    run = platform.runs[preflight(declared)]
    assert [one.name for one in run.plan.destinations] == ["archive"]
    assert platform.state is SyncState.ONBOARDING
    assert EnableOperator(task_id="enable", run=LATE).execute({}) == SyncState.ENABLED
    assert platform.state is SyncState.ENABLED
    nights = runs.onboarded_plan(platform, declared)
    assert (nights.destination_names, nights.table_names) == ({"archive"}, declared.table_names)
    both = results.plan(destinations=(*results.plan().destinations, *declared.destinations))
    assert runs.onboarded_plan(platform, both).destination_names == {"archive"}, "one with live tables is to be loaded"
    assert runs.to_onboard(platform, both.streamed, ()) == ("warehouse",)
    other = replace(declared, tables=declared.tables[:1])
    with pytest.raises(Refused) as refused:
        runs.onboarded_plan(platform, other)
    assert "settlement__onboard" in refused.value.hint
