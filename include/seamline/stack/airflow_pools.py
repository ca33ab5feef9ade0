"""Airflow's pools for the declared syncs, so that a backfill never keeps the night waiting."""

from seamline.adapters.airflow_rest import AirflowRest
from seamline.domain.errors import TransientError
from seamline.plan.pools import declared_pools
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
        for pool in declared_pools(layout.settings.declarations):
            api.add_pool(pool.name, slots=pool.slots, description=pool.description)
