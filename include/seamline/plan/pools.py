"""Airflow's pools for a sync: how many tasks may read one source, or write one destination, at the same time."""

from collections.abc import Iterable
from dataclasses import dataclass

from seamline.plan.model import SyncPlan

SOURCE_SLOTS = 2
DESTINATION_SLOTS = 2


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    slots: int
    description: str


def source_pool(source: str) -> str:
    return f"source_{source}"


def destination_pool(destination: str) -> str:
    return f"destination_{destination}"


def pools_of(plans: Iterable[SyncPlan]) -> tuple[Pool, ...]:
    """Each pool once, in the order of names. Two slots: a backfill never keeps the night waiting."""
    found = {}
    for plan in plans:
        name = plan.source.name
        found[source_pool(name)] = Pool(source_pool(name), SOURCE_SLOTS, f"tasks that read source {name}")
        for destination in plan.destinations:
            pool = destination_pool(destination.name)
            found[pool] = Pool(pool, DESTINATION_SLOTS, f"tasks that write destination {destination.name}")
    return tuple(found[name] for name in sorted(found))
