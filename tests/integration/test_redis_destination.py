"""A sync into Redis on real servers."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from seamline.domain.position import Position
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import ReadView
from tests import redis_server
from tests.conftest import RunningStack
from tests.integration.into_mariadb import synced
from tests.integration.known import known_by_id
from tests.integration.test_mariadb_destination import AFTER, BEFORE, SOURCES
from tests.once_more import ONCE_MORE
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def server(stack: RunningStack) -> Iterator[RedisServer]:
    with (
        redis_server.running(stack.settings) as running,
        known_by_id(running.publisher, "cache", "redis"),
        known_by_id(running.writer, "cache_writer", "redis"),
    ):
        yield running


def live(plan: SyncPlan, destination: DestinationPlan, at: Position) -> ReadView:
    kind = sink_kind(destination.kind)
    assert isinstance(kind, ReadsBack)
    (view,) = kind.open_live(plan, destination, 1)
    view._position = at  # type: ignore[attr-defined]  # noqa: SLF001
    return view


@pytest.mark.parametrize("kind", [pytest.param("mariadb", marks=ONCE_MORE), "postgres"])
def test_a_sync_into_redis_is_loaded_published_streamed_and_agrees_with_its_source(
    kind: str, server: RedisServer
) -> None:
    with SOURCES[kind](f"rd_{kind}") as bank, closing(server.admin()) as admin:
        admin.flushall()
        admin.execute_command("ACL", "SETUSER", "seamline_publisher", "+config|get")
        keyed = tuple(table for table in bank.plan.tables if table.name == "account")
        cache = DestinationPlan("warehouse", "redis", "cache", redis_server.PREFIX, writer_connection="cache_writer")
        bank.plan = replace(bank.plan, tables=keyed, destinations=(cache,))
        bank.plan = replace(bank.plan, destinations=(redis_server.destination_of(bank.plan),))
        verdicts = synced(bank, before=BEFORE, after=AFTER, there=live)
        assert verdicts == {"account": Verdict.MATCH}
        found = {key.decode(): admin.hgetall(key) for key in admin.scan_iter("{settlement}:*")}
        assert not admin.exists("{settlement}@findings:" + str(bank.plan.stream_id("warehouse")))
    assert found == {
        "{settlement}:account:1": {b"id": b"1", b"a": b"1", b"memo": "ü€😀".encode()},
        "{settlement}:account:4": {b"id": b"4", b"a": b"4"},
        "{settlement}:account:20": {b"id": b"20", b"memo": b"tail "},
    }
