"""A folder of Delta or Hudi tables has one ledger: the one that publishes there first, or whose rows lead to its
tables. A second one is refused before it writes, and sweeps nothing."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import Refused
from seamline.kinds.found import sink_kind
from seamline.ports import Problem
from tests.contract.behaviours import published
from tests.contract.lake_worlds import DELTA, HUDI, Lake, PostgresLakeWorld
from tests.integration.databases import either_of, postgres_database
from tests.log_topic import TABLES


@dataclass(frozen=True)
class TwoLedgers:
    """One folder of tables, and two databases whose ledgers are declared for it."""

    first: PostgresLakeWorld
    second: PostgresLakeWorld
    folder: Path
    patch: pytest.MonkeyPatch

    @property
    def owner(self) -> Path:
        return self.folder / ".seamline-ledger"

    def problems(self, world: PostgresLakeWorld) -> list[Problem]:
        self._lead_to(world)
        return list(sink_kind(world.destination.kind).problems(world.plan, world.destination))

    def maintain(self, world: PostgresLakeWorld) -> None:
        self._lead_to(world)
        with closing(sink_kind(world.destination.kind).open_maintenance(world.destination)) as maintenance:
            maintenance.let_go()

    def content(self) -> list[Path]:
        return sorted(self.folder.rglob("*"))

    def _lead_to(self, world: PostgresLakeWorld) -> None:
        for module in ("lake.maintenance", "lake.preflight", "lake.cuts"):
            self.patch.setattr(f"seamline.sinks.{module}.resolve", either_of(world.publisher))


@contextmanager
def _second(lake: Lake, warehouse: Path) -> Iterator[PostgresLakeWorld]:
    with (
        postgres_database("seamline_test_second_ledger") as database,
        closing(PostgresLakeWorld(TABLES, database, warehouse, lake=lake)) as world,
    ):
        yield world


@pytest.fixture(params=[DELTA, HUDI], ids=lambda lake: lake.name)
def ledgers(
    request: pytest.FixtureRequest, sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TwoLedgers]:
    lake: Lake = request.param
    with (
        closing(PostgresLakeWorld(TABLES, sink_database, tmp_path, lake=lake)) as first,
        _second(lake, tmp_path) as second,
    ):
        yield TwoLedgers(first, second, tmp_path / "settlement", monkeypatch)


def test_preflight_claims_no_folder_and_the_first_publish_does(ledgers: TwoLedgers) -> None:
    for world in (ledgers.second, ledgers.first):
        assert ledgers.problems(world) == []
    assert not ledgers.folder.exists(), "preflight writes nothing there"
    published(ledgers.first)
    assert ledgers.owner.exists()
    assert ledgers.problems(ledgers.first) == []


def test_a_second_ledger_on_a_folder_of_tables_is_refused_and_deletes_nothing(ledgers: TwoLedgers) -> None:
    published(ledgers.first)
    before = ledgers.content()
    (found,) = ledgers.problems(ledgers.second)
    assert "belong to another ledger" in found.what
    assert "dumped and restored" in found.cure
    assert str(ledgers.owner) in found.cure
    for begin in (ledgers.maintain, published):
        with pytest.raises(Refused, match="belong to another ledger"):
            begin(ledgers.second)
    assert ledgers.content() == before


def test_tables_without_an_owner_are_claimed_by_the_ledger_whose_rows_lead_there(ledgers: TwoLedgers) -> None:
    published(ledgers.first)
    ledgers.owner.unlink()
    before = ledgers.content()
    (found,) = ledgers.problems(ledgers.second)
    assert str(ledgers.folder) in found.what
    assert "no row of this ledger" in found.what
    for begin in (ledgers.maintain, published):
        with pytest.raises(Refused, match="no row of this ledger"):
            begin(ledgers.second)
    assert ledgers.content() == before
    assert ledgers.problems(ledgers.first) == []
    ledgers.maintain(ledgers.first)
    assert ledgers.content() == sorted([*before, ledgers.owner])


def test_a_restored_ledger_takes_its_tables_once_somebody_has_deleted_the_file(ledgers: TwoLedgers) -> None:
    published(ledgers.first)
    # As the file of a ledger that was dumped on another server.
    ledgers.owner.write_text("PostgreSQL 7, database 16384", encoding="utf-8")
    with pytest.raises(Refused, match="PostgreSQL 7, database 16384") as refused:
        ledgers.maintain(ledgers.first)
    assert f"delete {ledgers.owner}" in refused.value.hint
    ledgers.owner.unlink()
    ledgers.maintain(ledgers.first)
    assert ledgers.problems(ledgers.first) == []
    assert ledgers.owner.exists()
