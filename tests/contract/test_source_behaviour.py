"""One suite over every source: what onboarding, streams, nights and reconciliation build on, proven for each alike.

Topics of others need a capture, so the suite runs over them in `tests/capture/test_topics_as_a_source.py`.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.contract import unlogged_worlds
from tests.contract.source_suite import (
    SOURCE_BEHAVIOURS,
    SourceBehaviour,
    all_views_show_all_tables_at_one_position_while_somebody_writes,
)
from tests.contract.source_worlds import (
    LOGGED_DATABASE,
    UNLOGGED,
    Opens,
    Power,
    SourceWorld,
    mariadb_world,
    memory_world,
    mysql_world,
    postgres_world,
    unlogged,
)
from tests.once_more import ONCE_MORE


@dataclass(frozen=True)
class Offered:
    """A world of a kind, and the fixture that it needs."""

    kind: str
    opens: Opens
    powers: frozenset[Power]
    needs: str = "stack"


# Another kind joins the suite with one line here.
OFFERED = {
    "memory": Offered("memory", memory_world, LOGGED_DATABASE, needs=""),
    "mariadb": Offered("mariadb", mariadb_world, LOGGED_DATABASE),
    "mysql": Offered("mysql", mysql_world, LOGGED_DATABASE, needs="mysql_root"),
    "postgres": Offered("postgres", postgres_world, LOGGED_DATABASE),
    "mariadb_unlogged": Offered("mariadb", unlogged(mariadb_world), UNLOGGED),
    "mysql_unlogged": Offered("mysql", unlogged(mysql_world), UNLOGGED, needs="mysql_root"),
    "postgres_unlogged": Offered("postgres", unlogged(postgres_world), UNLOGGED),
    "files_parquet": Offered("files", unlogged_worlds.parquet_world, UNLOGGED, needs=""),
    "files_csv": Offered("files", unlogged_worlds.csv_world, UNLOGGED, needs=""),
    "h2": Offered("jdbc", unlogged_worlds.h2_world, UNLOGGED),
    "hsqldb": Offered("jdbc", unlogged_worlds.hsqldb_world, UNLOGGED),
}
# One session has one view, and begins a process each time.
_OF_ONE_VIEW = {("h2", all_views_show_all_tables_at_one_position_while_somebody_writes)}


def cases() -> Iterator[pytest.param]:
    for name, one in OFFERED.items():
        for behaviour, power in SOURCE_BEHAVIOURS.items():
            if power is None or power in one.powers:
                marks = ONCE_MORE if name == "hsqldb" or (name, behaviour) in _OF_ONE_VIEW else ()
                yield pytest.param(name, behaviour, id=f"{name}-{behaviour.__name__}", marks=marks)


@pytest.fixture(scope="module")
def source_world(request: pytest.FixtureRequest) -> Iterator[SourceWorld]:
    offered = OFFERED[request.param]
    if offered.needs:
        request.getfixturevalue(offered.needs)
    with offered.opens(f"source_suite_{request.param}") as world:
        yield world


@pytest.mark.parametrize(("source_world", "behaviour"), [*cases()], indirect=["source_world"])
def test_every_source_keeps_the_contract(behaviour: SourceBehaviour, source_world: SourceWorld) -> None:
    behaviour(source_world)
