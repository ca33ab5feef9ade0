"""A whole run inside Airflow, on a temporary SQLite: the comparison starts its driver, its verdict colours the run."""

import stat
from pathlib import Path
from typing import Any

import pytest

from seamline import settings
from seamline.domain.runs import PUBLISH, RunKind, Scope
from seamline.domain.verdict import Verdict
from seamline.plan.compile import compile_plan
from seamline.plan.model import plan_to_json
from seamline.spec.load import load_sync
from tests.dags import results


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `spark-submit` that notes its last argument, the run."""
    programs = tmp_path / "bin"
    programs.mkdir()
    submit = programs / "spark-submit"
    submit.write_text(f'#!/bin/sh\nfor last; do :; done\necho "$last" >> {tmp_path}/runs\n')
    submit.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{programs}:{settings.search_path()}")
    return tmp_path / "runs"


@pytest.fixture
def platform(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> results.Platform:
    made = results.use(monkeypatch, results.Platform())
    declared = compile_plan(load_sync(checkout / "include" / "syncs" / "settlement.yaml"), "settlement")
    made.start_run(run_id="o", sync="settlement", kind=RunKind.ONBOARD, plan_json=plan_to_json(declared))
    made.put_result("o", PUBLISH, {"warehouse": {}})
    return made


def _reconcile(checkout: Path) -> Any:
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db

    bag = DagBag(dag_folder=checkout / "dags", bundle_path=checkout / "dags", bundle_name="dags-folder")
    from airflow.dag_processing.bundles.manager import DagBundlesManager

    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)
    return bag.dags["settlement__reconcile"]


@pytest.mark.parametrize(("verdict", "colour"), [(Verdict.MATCH, "success"), (Verdict.BREAK, "failed")])
def test_a_comparison_on_demand_is_as_green_as_its_verdict(
    checkout: Path,
    airflow_database: Path,
    driver: Path,
    platform: results.Platform,
    monkeypatch: pytest.MonkeyPatch,
    verdict: Verdict,
    colour: str,
) -> None:
    def saved(run_id: str, scope: str, destination: str = "") -> Any:
        found = results.reconciliation(results.table("account", verdict), results.table("ledger_entry"))
        return results.reconciliation(*found.tables, run_id=run_id, scope=Scope.LIVE)

    monkeypatch.setattr(platform, "reconciliation", saved)
    run = _reconcile(checkout).test(run_conf={"business_date": "2026-11-19"})
    assert str(run.state) == colour
    (run_id,) = driver.read_text().splitlines()
    assert run_id.startswith("settlement/reconcile/2026-11-19/")
    assert platform.runs[run_id].kind == RunKind.RECONCILE
    assert platform.finished == {run_id: "succeeded" if colour == "success" else "failed"}
