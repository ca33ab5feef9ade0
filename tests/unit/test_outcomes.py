"""A step in several destinations: one that fails keeps no other from it, and says why."""

from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from seamline.domain.errors import InvariantViolated, Refused, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.domain.runs import NOT_PUBLISHED, PUBLISH, RunKind, RunState
from seamline.plan.model import Run
from seamline.ports import Commit
from seamline.sync.onboard import publish_each
from seamline.sync.outcomes import in_each
from tests.log_topic import STREAM, position, sync_plan

(WAREHOUSE,) = sync_plan().destinations
THREE = tuple(replace(WAREHOUSE, name=name) for name in ("archive", "warehouse", "vault"))
COMMIT = Commit(LedgerRow(STREAM, "t", "t-1", 5, position(1), 3, 0, 0, ()))


@dataclass
class Records:
    """The results of one run. `failing`: what its step raises, by destination."""

    failing: dict[str, SeamlineError]
    result: dict[str, Any] = field(default_factory=dict)
    tried: list[str] = field(default_factory=list)

    def put_result(self, run_id: str, key: str, value: Any) -> None:
        self.result[key] = dict(value)

    def step(self, name: str) -> Commit:
        self.tried.append(name)
        if name in self.failing:
            raise self.failing[name]
        return COMMIT

    def publish(self) -> Any:
        plan = replace(sync_plan(), destinations=THREE)
        return publish_each(Run("r", "s", RunKind.TABLES, None, plan, RunState.RUNNING, self.result), self, self.step)


def test_what_is_published_is_written_down_for_each_and_a_repeat_brings_the_others() -> None:
    records = Records({"archive": TransientError("it is down"), "vault": Refused("no rights")})
    with pytest.raises(TransientError, match="it is down"):
        records.publish()
    assert list(records.result[PUBLISH]) == ["warehouse"]
    assert records.result[NOT_PUBLISHED] == {"archive": "it is down", "vault": "no rights"}
    del records.failing["archive"]
    with pytest.raises(Refused):
        records.publish()
    assert records.result[NOT_PUBLISHED] == {"vault": "no rights"}
    records.failing.clear()
    assert set(records.publish()) == {"archive", "warehouse", "vault"}
    assert records.result[NOT_PUBLISHED] == {}


def test_an_error_that_is_no_destinations_own_ends_all() -> None:
    records = Records({"warehouse": InvariantViolated("a bug of ours")})
    with pytest.raises(InvariantViolated):
        records.publish()
    assert (records.tried, list(records.result[PUBLISH])) == (["archive", "warehouse"], ["archive"])


def test_where_every_destination_fails_the_first_error_is_raised() -> None:
    records = Records({one.name: TransientError(f"{one.name} is down") for one in THREE})
    with pytest.raises(TransientError, match="archive is down"):
        in_each(THREE, lambda one: records.step(one.name))
