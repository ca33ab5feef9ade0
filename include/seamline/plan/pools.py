"""Airflow's pools for a sync: how many tasks may read one source, or write one destination, at the same time."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from seamline.domain.errors import SeamlineError
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.load import Declarations, load_each

SOURCE_SLOTS = 2
DESTINATION_SLOTS = 2
# A task has one pool in Airflow. Those that write several destinations share this one, whichever these are: so no
# destination is written by more than these and its own together.
SEVERAL = "destinations"
SEVERAL_SLOTS = 4
# Every task of a backfill, whatever it does: its dates wait for each other here, and never hold a slot of the night.
# Fewer than the tasks that Airflow runs at once (`AIRFLOW__CORE__PARALLELISM`): the others stay free.
BACKFILL = "backfill"
BACKFILL_SLOTS = 2


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    slots: int
    description: str


def source_pool(source: str) -> str:
    return f"source_{source}"


def destination_pool(destination: str) -> str:
    return f"destination_{destination}"


def writing_pool(plan: SyncPlan) -> str:
    """Of a task that writes all destinations of the sync."""
    return SEVERAL if len(plan.destinations) > 1 else destination_pool(plan.destinations[0].name)


def pools_of(plans: Iterable[SyncPlan]) -> tuple[Pool, ...]:
    """Each pool once, in the order of names."""
    # Also where no sync has several yet: one may be declared while Airflow runs.
    found = {
        SEVERAL: Pool(SEVERAL, SEVERAL_SLOTS, "tasks that write several destinations"),
        BACKFILL: Pool(BACKFILL, BACKFILL_SLOTS, "tasks of backfills, of all syncs"),
    }
    for plan in plans:
        name = plan.source.name
        found[source_pool(name)] = Pool(source_pool(name), SOURCE_SLOTS, f"tasks that read source {name}")
        for destination in plan.destinations:
            pool = destination_pool(destination.name)
            found[pool] = Pool(pool, DESTINATION_SLOTS, f"tasks that write destination {destination.name}")
    return tuple(found[name] for name in sorted(found))


def declared_pools(folder: Path) -> tuple[Pool, ...]:
    """Of the syncs declared in this folder. A sync that cannot run needs none: `./seamline validate` and Airflow's page
    of errors name it."""
    plans = []
    for file, declared in load_each(folder).items():
        if isinstance(declared, Declarations):
            with suppress(SeamlineError):
                plans.append(compile_plan(declared, file.stem))
    return pools_of(plans)
