"""One suite over every source: what onboarding, streams and reconciliation build on, proven for each alike."""

from collections.abc import Iterator

import pytest

from tests.contract.source_suite import SOURCE_BEHAVIOURS, SourceBehaviour
from tests.contract.source_worlds import SOURCE_WORLDS, SourceWorld


@pytest.fixture(scope="module", params=list(SOURCE_WORLDS))
def source_world(request: pytest.FixtureRequest) -> Iterator[SourceWorld]:
    if request.param != "memory":
        request.getfixturevalue("mysql_root" if request.param == "mysql" else "stack")
    with SOURCE_WORLDS[request.param](f"source_suite_{request.param}") as world:
        yield world


@pytest.mark.parametrize("behaviour", SOURCE_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_every_source_keeps_the_contract(behaviour: SourceBehaviour, source_world: SourceWorld) -> None:
    behaviour(source_world)
