"""An attempt of a load that was thought dead and lives: from the moment on at which another one has taken over what it
has staged, it changes nothing of that, whichever step it comes to (ADR 112)."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.load_splits import Split, SplitRead
from seamline.domain.made_from import LogPlace
from seamline.kinds.bulk import ArrowRows, SplitArea, SplitTable, StagedPlace, StagedSplits
from seamline.kinds.found import power, sink_kind
from seamline.kinds.sink import ResumesLoads
from seamline.kinds.split_rules import LoadTakenOver
from seamline.plan.model import DestinationPlan
from seamline.sources.mariadb.position import BinlogPosition
from seamline.values.arrow import schema_of
from tests.conftest import RunningStack
from tests.integration.databases import mariadb, postgres, postgres_database
from tests.integration.into_mariadb import plan_of, warehouse_in_mariadb
from tests.integration.known import destination_known_by_id, destination_plan

ACCOUNT = Table("account", (Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),), ("id",))
RUN = "settlement/onboard/-/taken_over"
# Three splits, of which the first is done when the other attempt comes.
EDGES = (10, 20)


def read_of(name: str, number: int) -> SplitRead:
    at = BinlogPosition(f"0-1-{number}")
    return SplitRead(name, f"proof of {name}", at, LogPlace("log", "t1", number, at, is_exact=False))


FIRST, SECOND = read_of("r1", 1), read_of("r2", 2)


@dataclass
class Attempt:
    """One of the run. `read`: its own."""

    destination: DestinationPlan
    name: str
    read: SplitRead
    area: SplitArea

    def found(self) -> dict[str, StagedSplits]:
        found = dict(self.area.begun([ACCOUNT]))
        self.area.keep(list(found.values()))
        return found

    def creates(self) -> StagedPlace:
        return self.area.create_splits([SplitTable(ACCOUNT, "as", EDGES)])["account"]

    def stages(self, place: StagedPlace, number: int, meanwhile: Callable[[], object] = lambda: None) -> int:
        """Rows of a split. `meanwhile`: what happens before the last of them has come."""

        def batches() -> Iterator[pa.RecordBatch]:
            for key in (number * 10, number * 10 + 1):
                yield pa.RecordBatch.from_arrays([pa.array([key], pa.int64())], schema=schema_of(ACCOUNT))
            meanwhile()

        split = Split(number, len(EDGES) + 1, self.read.read, self.name)
        rows = ArrowRows(schema_of(ACCOUNT), batches())
        return self.kind.load_split(self.destination, place, rows, split, proof=lambda: self.read.proof)

    def brings_forward(self, place: StagedPlace, since: SplitRead, to: SplitRead) -> None:
        self.kind.bring_forward(self.destination, place, None, dates=None, since=since, to=to, attempt=self.name)

    @property
    def kind(self) -> ResumesLoads:
        return power(sink_kind(self.destination.kind), ResumesLoads, to="go on with a load")


@dataclass
class World:
    destination: DestinationPlan
    query: Callable[[str], Sequence[tuple[Any, ...]]]

    def attempt(self, name: str, read: SplitRead) -> Attempt:
        kind = power(sink_kind(self.destination.kind), ResumesLoads, to="go on with a load")
        return Attempt(self.destination, name, read, kind.split_area(self.destination, run_id=RUN, attempt=name))

    def keys(self, place: StagedPlace) -> list[int]:
        name = f"{place.schema}.{place.name}"
        return sorted(key for (key,) in self.query(f"SELECT id FROM {name}"))


@pytest.fixture(params=["postgres", "mariadb"])
def world(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[World]:
    if request.param == "mariadb":
        destination = plan_of("taken_over")
        with warehouse_in_mariadb("taken_over") as connection, closing(mariadb(connection)) as session:

            def query(statement: str) -> Sequence[tuple[Any, ...]]:
                with session.cursor() as cursor:
                    cursor.execute(statement)
                    return list(cursor.fetchall())

            yield World(destination, query)
        return
    destination = destination_plan("taken_over_warehouse", "bank")
    with (
        postgres_database(destination.connection) as connection,
        destination_known_by_id(connection, destination.connection),
        postgres(connection) as session,
    ):
        yield World(destination, lambda statement: session.execute(statement.encode()).fetchall())


def test_an_attempt_whose_load_is_taken_over_changes_nothing_of_it_at_any_step(world: World) -> None:
    old, new = world.attempt("old", FIRST), world.attempt("new", SECOND)
    assert old.found() == {}
    place = old.creates()
    old.stages(place, 0)
    kept: dict[str, StagedSplits] = {}
    # In the middle of a split, which the new attempt therefore does not find.
    with pytest.raises(LoadTakenOver):
        old.stages(place, 1, meanwhile=lambda: kept.update(new.found()))
    assert [(one.number, one.read) for one in kept["account"].done] == [(0, "r1")]
    with pytest.raises(LoadTakenOver):
        old.stages(place, 2)
    with pytest.raises(LoadTakenOver):
        old.creates()
    with pytest.raises(LoadTakenOver):
        old.brings_forward(place, FIRST, read_of("another of the old one's", 5))
    with pytest.raises(LoadTakenOver), old.area.held():
        pytest.fail("it would say of what is staged that it is its own")
    assert old.area.forget() is False
    old.area.drop()
    # The new one has all that was done, and stages the rest itself.
    new.stages(place, 1)
    old.area.drop()
    new.stages(place, 2)
    new.brings_forward(place, FIRST, SECOND)
    assert world.keys(place) == [0, 1, 10, 11, 20, 21]
    with new.area.held():
        assert old.area.forget() is False
    third = world.attempt("third", read_of("r3", 3))
    (found,) = third.found().values()
    assert [(one.number, one.read) for one in found.done] == [(0, "r2"), (1, "r2"), (2, "r2")]
    assert new.area.forget() is False
    assert third.area.forget() is True
    assert world.attempt("fourth", read_of("r4", 4)).found() == {}


def test_whoever_comes_second_waits_for_what_is_committed_just_now(world: World) -> None:
    """The first one writes down what it has staged while it holds that: nobody is between these two."""
    old, new = world.attempt("old", FIRST), world.attempt("new", SECOND)
    old.found()
    place = old.creates()
    for number in range(3):
        old.stages(place, number)
    order: list[str] = []
    with ThreadPoolExecutor(1) as pool, old.area.held():
        coming = pool.submit(lambda: (new.found(), order.append("taken over")))
        wait([coming], timeout=0.3)
        order.append("written down")
    assert coming.result()
    assert order == ["written down", "taken over"]
