"""What Airflow reads from dags/: every sync's DAGs, fast, without an error, with the stages that explain prints."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.dag_processing.dagbag import DagBag
from airflow.serialization.serialized_objects import DagSerialization

from seamline.cli.onboard import DAGS_OF_SYNCS
from seamline.domain.day_closed import ClosedBy, DayClosed
from seamline.plan.checks import ReconcileOnlyPlan
from seamline.plan.compile import compile_plan
from seamline.plan.pools import pools_of
from seamline.plan.stages import all_stages
from seamline.spec.load import load_sync
from seamline.sync.stream_state import WATCHED_EVERY_S
from seamline_airflow import stage_tasks
from seamline_airflow.dag_factory import sync_dags
from seamline_airflow.operators.spark_job import SparkJobOperator

KINDS = ("onboard", "tables", "nightly", "stream", "reconcile", "repair")


@pytest.fixture(scope="module")
def bag(checkout: Path) -> DagBag:
    return DagBag(dag_folder=checkout / "dags", bundle_path=checkout / "dags", bundle_name="dags")


@pytest.fixture(scope="module")
def settlement(checkout: Path) -> Any:
    file = checkout / "include" / "syncs" / "settlement.yaml"
    return compile_plan(load_sync(file), "settlement")


def test_every_sync_has_its_dags_and_nothing_fails_to_import(bag: DagBag) -> None:
    assert bag.import_errors == {}
    assert set(bag.dags) == {f"settlement__{kind}" for kind in KINDS} | {"seamline__streams", "seamline__maintenance"}


@pytest.mark.parametrize("kind", KINDS)
def test_the_tasks_are_the_stages_that_explain_prints(bag: DagBag, settlement: Any, kind: str) -> None:
    stages = all_stages(settlement)[kind]
    dag = bag.dags[f"settlement__{kind}"]
    assert [task.task_id for task in dag.topological_sort()] == [stage.id for stage in stages]
    for stage in stages:
        task = dag.get_task(stage.id)
        assert task.task_display_name == stage.title
        assert stage.does in task.doc_md
        assert isinstance(task, SparkJobOperator) == bool(stage.job)
        if stage.job:
            assert task.job == f"spark_jobs/{stage.job}.py"


def test_people_find_names_texts_and_tags(bag: DagBag) -> None:
    for dag in bag.dags.values():
        assert dag.dag_display_name != dag.dag_id
        assert dag.doc_md
        assert dag.description
        assert "seamline" in dag.tags
        # A night may wait for a person who decides about one destination.
        assert dag.max_active_runs == (2 if dag.dag_id == "settlement__nightly" else 1)
        assert not dag.catchup
        for task in dag.tasks:
            assert task.task_display_name != task.task_id
            assert task.owner == "seamline"
            assert task.weight_rule == "absolute"


def test_a_lost_worker_is_always_retried(bag: DagBag) -> None:
    """But for the look at all streams, which comes again in two minutes."""
    for dag in bag.dags.values():
        for task in dag.tasks:
            assert (task.retries == 0) == (dag.dag_id == "seamline__streams")


def test_all_streams_are_looked_at_as_often_as_the_bounds_of_faults_count_on(bag: DagBag) -> None:
    """`tests/unit/test_found_in_time.py`."""
    assert bag.dags["seamline__streams"].schedule == f"*/{WATCHED_EVERY_S / 60:g} * * * *"


def test_streams_outrank_reads(bag: DagBag) -> None:
    def weight(dag: str, task: str) -> int:
        return int(bag.dags[dag].get_task(task).priority_weight)

    assert weight("seamline__streams", "look") > weight("settlement__stream", "want")
    assert weight("settlement__stream", "want") > weight("settlement__nightly", "cut")
    assert weight("settlement__nightly", "cut") > weight("settlement__reconcile", "compare")


def test_the_source_s_check_ends_no_watch(bag: DagBag) -> None:
    dag = bag.dags["settlement__stream"]
    assert dag.get_task("want").downstream_task_ids == {"check", "watch"}
    assert dag.get_task("report").upstream_task_ids == {"check", "watch"}


def test_a_dag_reads_back_from_its_serialized_form(bag: DagBag) -> None:
    for dag in bag.dags.values():
        document = DagSerialization.to_dict(dag)
        back = DagSerialization.from_dict(document)
        assert [task.task_id for task in back.tasks] == [task.task_id for task in dag.tasks]
        assert DagSerialization.to_dict(dag) == document
        assert type(back.timetable).__name__ == type(dag.timetable).__name__ or dag.schedule is None


def test_what_only_a_person_starts_is_not_paused(bag: DagBag) -> None:
    on_demand = {name for name, dag in bag.dags.items() if dag.schedule is None}
    assert on_demand >= {"settlement__onboard", "settlement__tables", "settlement__repair"}
    assert {bag.dags[name].is_paused_upon_creation for name in on_demand} == {False}


def test_a_serialized_dag_holds_no_path_of_this_machine(bag: DagBag, checkout: Path) -> None:
    for dag in bag.dags.values():
        where_it_was_read = {"fileloc": "", "_processor_dags_folder": ""}
        fields = {**DagSerialization.to_dict(dag)["dag"], **where_it_was_read}
        assert str(checkout) not in str(fields)


def test_the_publish_task_names_the_asset_that_starts_the_comparison(bag: DagBag) -> None:
    (asset,) = bag.dags["settlement__nightly"].get_task("publish").outlets
    assert asset.name == "settlement.cut"
    assert bag.dags["settlement__reconcile"].timetable.asset_condition == asset


def test_only_the_declared_approvers_may_sign_for_a_cut(bag: DagBag, settlement: Any) -> None:
    assert [user["id"] for user in bag.dags["settlement__nightly"].get_task("approve").assigned_users] == ["approver"]
    anyone = replace(settlement, reconcile=replace(settlement.reconcile, approvers=()))
    assert not sync_dags(anyone)["settlement__nightly"].get_task("approve").assigned_users


def test_the_forms_of_a_night_and_of_its_approval_are_two(bag: DagBag) -> None:
    dag = bag.dags["settlement__nightly"]
    assert list(dag.params) == ["business_date", "mode", "tables", "reason", "keep_done"]
    assert dag.params.get_param("business_date").schema["format"] == "date"
    assert list(dag.get_task("approve").serialized_params) == ["reason"]


def test_pools_bound_reads_per_source_and_writes_per_destination(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEAMLINE_POOLS", "1")
    dag = DagBag(dag_folder=checkout / "dags" / "syncs.py", bundle_name="dags").dags["settlement__nightly"]
    assert dag.get_task("cut").pool == "source_core_bank"
    # Of `warehouse` and `archive`: a slot of one of them would leave the other one unbounded.
    assert dag.get_task("publish").pool == "destinations"
    assert dag.get_task("gate").pool == "default_pool"


def test_every_pool_of_a_task_is_made_and_one_destination_has_its_own(
    settlement: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task of a pool that is not there would never start."""
    monkeypatch.setenv("SEAMLINE_POOLS", "1")
    alone = replace(settlement, sync="alone", destinations=settlement.destinations[:1])
    used = {
        stage_tasks.isolation(plan, stage).get("pool")
        for plan in (settlement, alone)
        for stages in all_stages(plan).values()
        for stage in stages
    }
    assert used - {None} == {"source_core_bank", "destination_warehouse", "destinations"}
    made = {pool.name for pool in pools_of([alone])}
    assert used - {None} <= made, "one that is declared while Airflow runs waits for no pool"


def test_without_pools_everything_runs_in_the_default_pool(bag: DagBag) -> None:
    assert {task.pool for dag in bag.dags.values() for task in dag.tasks} == {"default_pool"}


def _declarations(checkout: Path, folder: Path) -> Path:
    for kind in ("sources", "destinations", "syncs", "expectations", "transforms"):
        (folder / kind).mkdir(parents=True)
        for file in (checkout / "include" / kind).iterdir():
            (folder / kind / file.name).write_text(file.read_text(encoding="utf-8"), encoding="utf-8")
    return folder


def test_airflow_knows_a_dag_of_the_file_of_syncs_before_the_first_one_is_declared(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without one it could not be asked to read the file (`AirflowRest.parse_again`): the first sync waited 90 s."""
    (tmp_path / "syncs").mkdir()
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    bag = DagBag(dag_folder=checkout / "dags", bundle_path=checkout / "dags", bundle_name="dags")
    files = {dag.dag_id: Path(dag.fileloc).name for dag in bag.dags.values()}
    assert files == {"seamline__streams": "seamline_streams.py", "seamline__maintenance": DAGS_OF_SYNCS}


def test_a_broken_declaration_is_an_import_error_of_its_own(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = _declarations(checkout, tmp_path / "include") / "syncs" / "orders.yaml"
    broken.write_text("sync: orders\nsourse: core_bank\ndestinations: [warehouse]\ntables: [account]\n")
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path / "include"))
    bag = DagBag(dag_folder=checkout / "dags", bundle_path=checkout / "dags", bundle_name="dags")
    assert {f"settlement__{kind}" for kind in KINDS} <= set(bag.dags)
    assert not [dag_id for dag_id in bag.dags if dag_id.startswith("orders")]
    assert list(bag.import_errors) == ["declaration_faults.py"]
    assert "orders.yaml:2" in bag.import_errors["declaration_faults.py"]
    assert "Did you mean `source`" in bag.import_errors["declaration_faults.py"]


def test_a_tasks_process_builds_only_the_dag_that_it_was_asked_for(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "settlement__nightly")
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_TASK_ID", "cut")
    bag = DagBag(dag_folder=checkout / "dags", bundle_path=checkout / "dags", bundle_name="dags")
    assert bag.import_errors == {}
    assert set(bag.dags) == {"settlement__nightly"}


def test_a_tasks_process_has_the_processor_s_dag_from_the_files_of_its_sync_alone(
    checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, opened, original = _declarations(checkout, tmp_path / "include"), list[Path](), Path.open
    (folder / "syncs" / "orders.yaml").write_text("sync: orders\ntables: [account]\n", encoding="utf-8")
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))

    def read() -> Any:
        opened.clear()
        found = DagBag(dag_folder=checkout / "dags" / "syncs.py", bundle_name="dags").dags["settlement__nightly"]
        return DagSerialization.to_dict(found), "orders.yaml" in {file.name for file in opened}

    def noted(path: Path, *arguments: Any, **how: Any) -> Any:
        opened.append(path)
        return original(path, *arguments, **how)

    monkeypatch.setattr(Path, "open", noted)
    of_processor, has_read_the_other = read()
    assert has_read_the_other
    monkeypatch.setenv("_AIRFLOW_PARSING_CONTEXT_DAG_ID", "settlement__nightly")
    assert read() == (of_processor, False)


def test_parsing_imports_neither_great_expectations_nor_spark_nor_a_client(checkout: Path) -> None:
    """And it takes less than two seconds of a core once Airflow itself is there."""
    script = (
        "import sys, time\n"
        "from airflow.dag_processing.dagbag import DagBag\n"
        "import airflow.sdk.definitions.dag\n"
        "began = time.process_time()\n"
        f"bag = DagBag(dag_folder={str(checkout / 'dags')!r}, bundle_name='dags')\n"
        "assert len(bag.dags) == 8, bag.import_errors\n"
        "heavy = {'great_expectations', 'pyspark', 'pandas', 'psycopg', 'confluent_kafka', 'pymysql'}\n"
        "print(sorted(heavy & set(sys.modules)), time.process_time() - began)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    modules, _, seconds = done.stdout.strip().splitlines()[-1].rpartition(" ")
    assert modules == "[]"
    assert float(seconds) < 2.0


def test_the_plugin_is_loaded_without_the_page_behind_it(checkout: Path) -> None:
    script = (
        "import sys\n"
        "from airflow import plugins_manager\n"
        "apps, _ = plugins_manager.get_fastapi_plugins()\n"
        "assert not plugins_manager.get_import_errors(), plugins_manager.get_import_errors()\n"
        "print([app['url_prefix'] for app in apps], 'seamline_airflow.page.app' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.stdout.strip().splitlines()[-1] == "['/seamline'] False", done.stderr[-2000:]


@pytest.mark.parametrize("on_break", ["fail", "publish_and_flag"])
def test_without_a_person_to_ask_the_gate_leads_straight_on(settlement: Any, on_break: str) -> None:
    plan = replace(settlement, reconcile=replace(settlement.reconcile, on_break=on_break, expectations=""))
    dag = sync_dags(plan)["settlement__nightly"]
    names = [task.task_id for task in dag.topological_sort()]
    assert names == ["open", "cut", "verdicts", "expectations", "gate", "publish", "publish_rest", "complete"]
    assert dag.get_task("publish").trigger_rule == "all_success"


def test_a_night_that_waits_for_its_source_has_a_task_for_it_before_the_cut(settlement: Any) -> None:
    closed = (DayClosed(ClosedBy.ASSET, "core_bank.closed", every_s=300), DayClosed(ClosedBy.FILE, "{date}.ok"))
    plan = replace(settlement, nightly=replace(settlement.nightly, closed_when=closed))
    dag = sync_dags(plan)["settlement__nightly"]
    assert [task.task_id for task in dag.topological_sort()][:3] == ["open", "ready", "cut"]
    ready = dag.get_task("ready")
    assert (ready.poll_s, [one.name for one in ready.inlets]) == (300, ["core_bank.closed"])
    assert "an event of asset core_bank.closed with this date and the file {date}.ok" in str(ready.doc_md)
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert [one.name for one in read.get_task("ready").inlets] == ["core_bank.closed"]


def test_a_sync_without_a_nightly_cut_compares_on_demand_only(settlement: Any) -> None:
    dags = sync_dags(replace(settlement, nightly=None))
    assert set(dags) == {f"settlement__{kind}" for kind in ("onboard", "tables", "stream", "reconcile", "repair")}
    assert dags["settlement__reconcile"].schedule is None


def test_a_sync_that_only_compares_has_the_comparison_s_dag_alone_and_its_hours(settlement: Any) -> None:
    only = ReconcileOnlyPlan(60, ("06:30", "18:00"), "Asia/Shanghai")
    plan = replace(settlement, nightly=None, reconcile_only=only)
    ((name, dag),) = sync_dags(plan).items()
    assert name == "settlement__reconcile"
    assert [task.task_id for task in dag.topological_sort()] == ["compare", "verdicts"]
    assert "Red on a break, and on what was in flight" in str(dag.doc_md)
    read = DagSerialization.from_dict(DagSerialization.to_dict(dag))
    assert read.timetable.summary == "30 6 * * *, 0 18 * * *"
    (dag,) = sync_dags(replace(plan, reconcile_only=replace(only, at=()))).values()
    assert dag.schedule is None
