"""Airflow's pools for the declared syncs, so that a backfill never keeps the night waiting."""

from seamline.adapters.airflow_rest import AirflowRest
from seamline.domain.errors import SeamlineError, TransientError
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.plan.pools import pools_of
from seamline.spec.load import Declarations, load_each
from seamline.stack import credentials
from seamline.stack.layout import Layout


def are_made(layout: Layout) -> bool:
    """Make the pools that are not there yet; False while Airflow cannot be reached. A resized one keeps its size."""
    try:
        _make(layout)
    except TransientError:
        return False
    return True


def _make(layout: Layout) -> None:
    made = credentials.load_or_make(layout)
    url = f"http://127.0.0.1:{layout.settings.ports.airflow}"
    with AirflowRest(url, "approver", made["airflow_user_approver"]) as api:
        for pool in pools_of(_plans(layout)):
            api.add_pool(pool.name, slots=pool.slots, description=pool.description)


def _plans(layout: Layout) -> list[SyncPlan]:
    plans = []
    for file, declared in load_each(layout.settings.declarations).items():
        if isinstance(declared, Declarations):
            try:
                plans.append(compile_plan(declared, file.stem))
            except SeamlineError:
                # A sync that cannot run needs no pool; `seamline validate` and Airflow's page of errors name it.
                continue
    return plans
