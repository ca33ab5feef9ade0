"""Airflow's pools for the declared syncs, in its own database: `python -m seamline_airflow.pools`.

For containers, where this runs behind Airflow's migrations and before Airflow itself. A local `up` makes them by REST.
"""

import sys

from airflow.models.pool import Pool
from airflow.utils.session import create_session
from sqlalchemy import select

from seamline import settings
from seamline.plan.pools import declared_pools


def make() -> list[str]:
    """Make the pools that are not there yet, and name them. A resized one keeps its size."""
    made = []
    with create_session() as session:
        known = set(session.scalars(select(Pool.pool)))
        for pool in declared_pools(settings.load().declarations):
            if pool.name not in known:
                session.add(
                    Pool(pool=pool.name, slots=pool.slots, description=pool.description, include_deferred=False)
                )
                made.append(pool.name)
    return made


if __name__ == "__main__":
    sys.stdout.write("".join(f"pool {name}\n" for name in make()))
