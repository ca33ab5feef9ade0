"""Runs of one business date in the platform database: one at a time."""

from concurrent.futures import ThreadPoolExecutor
from datetime import date

from seamline.plan.document import plan_to_json
from seamline.platform.store import PlatformStore
from tests.integration.platform_database import plan
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server
from tests.integration.test_platform import start_run
from tests.integration.test_platform import store as store


def test_of_two_runs_of_one_date_that_begin_together_one_starts_and_the_other_learns_its_name(
    store: PlatformStore,
) -> None:
    def begin(run_id: str) -> str:
        return store.start_alone(
            run_id=run_id,
            sync="settlement",
            kind="nightly",
            plan_json=plan_to_json(plan()),
            business_date=date(2026, 3, 1),
        )

    start_run(store, "before")
    store.finish_run("before", state="succeeded")
    start_run(store, "beside", kind="reconcile")
    with ThreadPoolExecutor(8) as pool:
        said = list(pool.map(begin, [f"r{number}" for number in range(8)]))
    (first,) = [number for number, found in enumerate(said) if not found]
    assert {found for found in said if found} == {f"r{first}"}
    assert begin(f"r{first}~2") == "", "a take of the run that goes on is in nobody's way"
    store.finish_run(f"r{first}~2", state="failed")
    store.finish_run(f"r{first}", state="succeeded")
    assert begin("later") == ""
