"""A folder of Delta or Hudi tables has one ledger: a second one is refused before it writes, and sweeps nothing."""

from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.errors import Refused
from seamline.kinds.found import sink_kind
from tests.contract.lake_worlds import DELTA, HUDI, Lake, PostgresLakeWorld
from tests.integration.databases import either_of, postgres_database
from tests.log_topic import TABLES


@pytest.mark.parametrize("lake", [DELTA, HUDI], ids=lambda lake: lake.name)
def test_a_second_ledger_on_a_folder_of_tables_is_refused_and_deletes_nothing(
    lake: Lake, sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def led_by(connection: Connection) -> None:
        for module in ("lake.maintenance", "lake.preflight", "lake.cuts"):
            monkeypatch.setattr(f"seamline.sinks.{module}.resolve", either_of(connection))

    kind = sink_kind(lake.name)
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path, lake=lake)) as world:
        led_by(sink_database)
        for _ in range(2):
            assert kind.problems(world.plan, world.destination) == (), "a repeat finds its own"
        with postgres_database("seamline_test_second_ledger") as second:
            led_by(second)
            (found,) = kind.problems(world.plan, world.destination)
            assert "belong to another ledger" in found.what
            assert str(tmp_path / "settlement" / ".seamline-ledger") in found.cure
            with (
                closing(kind.open_maintenance(world.destination)) as maintenance,
                pytest.raises(Refused, match="belong to another ledger"),
            ):
                maintenance.let_go()
        assert [path.name for path in (tmp_path / "settlement").iterdir()] == [".seamline-ledger"]
