"""Runs the sink suite over the kind `memory` as its installed package gives it: a program of its own, because the other
tests of a process shall not know the kind.
"""

from collections.abc import Sequence
from dataclasses import replace

import seamline_memory
from seamline import registry
from seamline.domain.catalogue import Table
from seamline.domain.position import position_from_json, position_to_json
from seamline.plan.model import SyncPlan
from seamline.ports import Failpoints, Sink
from seamline_memory.position import MemoryPosition
from seamline_memory.store import STORES
from tests.contract.behaviours import BEHAVIOURS, Behaviour
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import JOINING_BEHAVIOURS
from tests.contract.truncate_behaviours import TRUNCATE_BEHAVIOURS
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.contract.worlds import MemoryWorld
from tests.log_topic import TABLES
from tests.toast_log import NOTE

SUITE: Sequence[tuple[Sequence[Behaviour], Sequence[Table]]] = (
    (BEHAVIOURS, TABLES),
    (FILTER_BEHAVIOURS, TABLES),
    (TRUNCATE_BEHAVIOURS, TABLES),
    (JOINING_BEHAVIOURS, TABLES),
    (GOING_BACK_BEHAVIOURS, TABLES),
    (LEFT_OUT_BEHAVIOURS, [NOTE]),
)


class InstalledWorld(MemoryWorld):
    """Its sinks are opened by the registry, which finds their kind by its name."""

    def sink(self, *, failpoints: Failpoints | None = None) -> Sink:
        STORES["warehouse"] = self._destination
        opened = registry.sink(of_memory(self.plan), "warehouse")
        if failpoints is not None:
            opened._failpoints = failpoints  # type: ignore[attr-defined]  # noqa: SLF001 (only a test has any)
        return opened


def of_memory(plan: SyncPlan) -> SyncPlan:
    return replace(plan, destinations=tuple(replace(one, kind="memory") for one in plan.destinations))


def main() -> None:
    for behaviours, tables in SUITE:
        for behaviour in behaviours:
            behaviour(InstalledWorld(tables))
            print(behaviour.__name__)
    assert position_from_json(position_to_json(MemoryPosition(7))) == MemoryPosition(7)
    print(f"from {seamline_memory.__file__}")


if __name__ == "__main__":
    main()
