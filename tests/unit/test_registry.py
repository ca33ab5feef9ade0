"""Every kind that the registry lists can be opened: a name that nobody provides would only be found by a user."""

import pytest

from seamline import registry
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan

OPENERS = [
    place
    for name, value in vars(registry).items()
    if name.startswith("_") and name.isupper()
    for place in (value.values() if isinstance(value, dict) else [value])
]


@pytest.mark.parametrize("place", OPENERS)
def test_each_opener_is_there(place: str) -> None:
    assert callable(registry._function(place))


def test_an_unknown_kind_names_the_known_ones() -> None:
    plan = SyncPlan(
        sync="settlement",
        source=SourcePlan("legacy", "db2", "bank", "a", "b", "c", "log", "connector"),
        destinations=(DestinationPlan("warehouse", "paper", "warehouse", "settlement"),),
        tables=(),
    )
    with pytest.raises(ConfigError, match=r"source of kind 'db2'.*\n.*mariadb"):
        registry.source(plan)
    with pytest.raises(ConfigError, match=r"destination of kind 'paper'.*\n.*postgres"):
        registry.sink(plan, "warehouse")


def test_nothing_is_armed_to_fail_unless_the_environment_says_so() -> None:
    assert registry.failpoints() is None
