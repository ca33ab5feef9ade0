"""A sync into Delta tables on real servers."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from seamline.adapters.connections import resolve
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsAtOnePosition, ReadsBack
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import ReadView
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database
from tests.integration.into_mariadb import synced
from tests.integration.known import destination_known_by_id
from tests.integration.test_mariadb_destination import AFTER, BEFORE, SOURCES
from tests.once_more import ONCE_MORE

LEDGER = "delta_ledger"


@pytest.fixture
def lake(stack: RunningStack, tmp_path: Path) -> Iterator[DestinationPlan]:
    with postgres_database(LEDGER) as publisher, destination_known_by_id(publisher, LEDGER):
        plan = DestinationPlan("warehouse", "delta", LEDGER, "bank", writer_connection=f"{LEDGER}_writer")
        yield replace(plan, options=(("warehouse", str(tmp_path)),))


def live(plan: SyncPlan, destination: DestinationPlan, at: Position) -> ReadView:
    kind = sink_kind(destination.kind)
    assert isinstance(kind, ReadsBack)
    (view,) = kind.open_live(plan, destination, 1)
    view._position = at  # type: ignore[attr-defined]  # noqa: SLF001
    return view


@pytest.mark.parametrize("kind", [pytest.param("mariadb", marks=ONCE_MORE), "postgres"])
def test_a_sync_into_delta_is_loaded_published_streamed_and_agrees_with_its_source(
    kind: str, lake: DestinationPlan, tmp_path: Path
) -> None:
    with SOURCES[kind](f"delta_{kind}") as bank:
        bank.plan = replace(bank.plan, destinations=(lake,))
        verdicts = synced(bank, before=BEFORE, after=AFTER, there=live)
        assert verdicts == dict.fromkeys(("account", "audit"), Verdict.MATCH)
        stream: StreamId = bank.plan.stream_id(lake.name)
    with closing(postgres(resolve(LEDGER))) as session:
        assert session.execute("SELECT count(*) FROM seamline.finding").fetchone() == (0,)
        folders = session.execute("SELECT table_name, folder FROM seamline.delta_table ORDER BY 1").fetchall()
    assert folders == [(name, str(tmp_path / "bank" / name)) for name in ("account", "audit")]
    reading = sink_kind("delta")
    assert isinstance(reading, ReadsAtOnePosition)
    found = reading.open_tables(lake, stream, "live").arrow()
    assert sorted(tuple(row.values()) for row in found["account"].to_pylist()) == [
        (1, 1, "ü€😀"),
        (4, 4, None),
        (20, None, "tail "),
    ]
    assert Counter(found["audit"].column("memo").to_pylist()) == {"same": 3, "same ": 1, None: 1}
