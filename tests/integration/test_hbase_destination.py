"""A sync into HBase on real servers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from seamline.domain.position import Position
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import ReadView
from seamline.sinks.hbase.gateway import open_store
from seamline.sinks.hbase.places import Place
from seamline.sinks.hbase.rows import scanned
from tests import hbase_server
from tests.conftest import RunningStack
from tests.hbase_server import HBaseServer
from tests.integration.into_mariadb import synced
from tests.integration.known import known_by_id
from tests.integration.test_mariadb_destination import AFTER, BEFORE, SOURCES
from tests.once_more import ONCE_MORE


@pytest.fixture(scope="module")
def server(stack: RunningStack) -> Iterator[HBaseServer]:
    with hbase_server.running(stack.settings) as running, known_by_id(running.connection, "cells", "hbase"):
        yield running


def live(plan: SyncPlan, destination: DestinationPlan, at: Position) -> ReadView:
    kind = sink_kind(destination.kind)
    assert isinstance(kind, ReadsBack)
    (view,) = kind.open_live(plan, destination, 1)
    view._position = at  # type: ignore[attr-defined]  # noqa: SLF001
    return view


@ONCE_MORE
def test_a_sync_into_hbase_is_loaded_published_streamed_and_agrees_with_its_source(server: HBaseServer) -> None:
    with SOURCES["postgres"]("hb_postgres") as bank:
        keyed = tuple(table for table in bank.plan.tables if table.name == "account")
        cells = DestinationPlan("warehouse", "hbase", "cells", hbase_server.NAMESPACE)
        bank.plan = replace(bank.plan, tables=keyed, destinations=(cells,))
        bank.plan = replace(bank.plan, destinations=(hbase_server.destination_of(bank.plan),))
        verdicts = synced(bank, before=BEFORE, after=AFTER, there=live)
        assert verdicts == {"account": Verdict.MATCH}
        found = dict(scanned(open_store(server.connection), Place("settlement:account")))
    assert found == {
        b"1": {"id": "1", "a": "1", "memo": "ü€😀"},
        b"4": {"id": "4", "a": "4"},
        b"20": {"id": "20", "memo": "tail "},
    }
