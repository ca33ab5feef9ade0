"""A sync into Hudi tables on real servers."""

from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from seamline.adapters.connections import resolve
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsAtOnePosition
from seamline.plan.model import DestinationPlan
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database
from tests.integration.into_mariadb import synced
from tests.integration.known import destination_known_by_id
from tests.integration.test_delta_destination import live
from tests.integration.test_mariadb_destination import AFTER, BEFORE, SOURCES

LEDGER = "hudi_ledger"


def test_a_sync_into_hudi_is_loaded_published_streamed_and_agrees_with_its_source(
    stack: RunningStack,  # noqa: ARG001 (its servers)
    tmp_path: Path,
) -> None:
    declared = DestinationPlan("warehouse", "hudi", LEDGER, "bank", writer_connection=f"{LEDGER}_writer")
    lake = replace(declared, options=(("warehouse", str(tmp_path)),))
    with postgres_database(LEDGER) as publisher, destination_known_by_id(publisher, LEDGER):
        with SOURCES["postgres"]("hudi_postgres") as bank:
            bank.plan = replace(bank.plan, destinations=(lake,))
            verdicts = synced(bank, before=BEFORE, after=AFTER, there=live)
            assert verdicts == dict.fromkeys(("account", "audit"), Verdict.MATCH)
            stream = bank.plan.stream_id(lake.name)
        with closing(postgres(resolve(LEDGER))) as session:
            assert session.execute("SELECT count(*) FROM seamline.finding").fetchone() == (0,)
        reading = sink_kind("hudi")
        assert isinstance(reading, ReadsAtOnePosition)
        found = reading.open_tables(lake, stream, "live").arrow()
    assert sorted(tuple(row.values()) for row in found["account"].to_pylist()) == [
        (1, 1, "ü€😀"),
        (4, 4, None),
        (20, None, "tail "),
    ]
    assert Counter(found["audit"].column("memo").to_pylist()) == {"same": 3, "same ": 1, None: 1}
