"""Redis as a destination: what others do to its keys beside a stream, and what a failover gives again."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest

from seamline import settings
from seamline.domain.errors import GateFailed, SchemaConflict
from seamline.ports import Joining
from seamline.sinks.redis import loads, maintenance, reading
from seamline.sinks.redis.reading import fetched
from tests import redis_server
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.joining_behaviours import carrying, passed
from tests.contract.keyed_behaviours import leg
from tests.contract.redis_world import RedisWorld
from tests.contract.test_redis import KEYED, opened, untouched
from tests.log_topic import ACCOUNT, STREAM, TRANSFER, insert, position, publication, update
from tests.redis_server import RedisServer


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server.running(settings.load()) as running:
        yield running


@pytest.fixture
def world(server: RedisServer) -> Iterator[RedisWorld]:
    with opened(KEYED, server) as made:
        yield made


def test_two_owners_of_one_epoch_behind_a_failover_mix_no_parts_of_large_transactions(world: RedisWorld) -> None:
    """A replica that was behind gives an epoch a second time: each owner wrote its parts over those of the other."""
    first = published(world)
    ledger = first.lease.ledger
    world.put_back(replace(ledger, epoch=ledger.epoch - 1))
    second = Applying(world)
    assert second.lease.epoch == first.lease.epoch
    (mine,) = second.batches(insert(ACCOUNT, **account(1)))
    (other,) = first.batches(insert(ACCOUNT, **account(2)))
    staged = second.sink.stage(second.lease, replace(mine, chunk=1))
    first.sink.stage(first.lease, replace(other, chunk=1))
    second.sink.commit(second.lease, [staged], progress=second.progress())
    assert world.rows(ACCOUNT) == texts(account(1))


def test_a_publish_changes_nothing_where_rows_of_a_place_and_its_sorted_set_do_not_agree(world: RedisWorld) -> None:
    """It unlinked the live rows, and ended amid the renames."""
    stream = carrying(world, ACCOUNT)
    load = world.load(ACCOUNT, [account(5), account(6)])
    world.admin.zadd(world.keys.staged(load.staged_as).index, {"7": 0})
    with pytest.raises(GateFailed, match="the staged table of account now holds 3 rows"):
        world.sink().publish(STREAM, [load], publication=publication([ACCOUNT], run_id="run-2"))
    untouched(world, stream)
    world.admin.delete(f"{world.keys.live('settlement', 'account').rows}1")
    with pytest.raises(GateFailed, match="of table account 1 rows are gone that its sorted set names") as left:
        world.sink().publish(STREAM, [], publication=publication([], run_id="run-2"))
    assert "repair it" in left.value.hint


def test_large_rows_are_loaded_and_read_in_parts_that_redis_takes(
    world: RedisWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 rows of 300 kB were one argument, which Redis refuses, and the load was tried again for ever."""
    rows = [account(n, "x" * 100_000) for n in range(20)]
    for module in (loads, reading):
        monkeypatch.setattr(module, "_PAGE_BYTES", 300_000, raising=False)
    read: list[int] = []
    right = world.session.run

    def run(*given: Any) -> Any:
        answer = right(*given)
        read.append(len(answer[1]) if isinstance(answer, list) else 0)
        return answer

    monkeypatch.setattr(world.session, "run", run)
    world.admin.config_set("proto-max-bulk-len", 1 << 20)
    try:
        load = world.load(ACCOUNT, rows)
    finally:
        world.admin.config_set("proto-max-bulk-len", 512 << 20)
    world.sink().publish(STREAM, [load], publication=publication([ACCOUNT]))
    assert (load.rows, world.rows(ACCOUNT)) == (20, texts(*rows))
    assert 300_000 < max(read) < 500_000
    monkeypatch.setattr(loads, "ROW_MAX", 90_000)
    with pytest.raises(SchemaConflict, match="a row of account has .* bytes as texts, and Redis takes 90000"):
        world.load(ACCOUNT, [account(1, "x" * 100_000), account(2, "y" * 250_000)])


def test_a_row_that_somebody_has_given_another_type_is_missing_and_a_repair_can_mend_it(world: RedisWorld) -> None:
    """Its comparison ended in an error of Redis each time, so nobody was shown the row."""
    stream = carrying(world, ACCOUNT)
    key = f"{world.keys.live('settlement', 'account').rows}1"
    world.admin.delete(key)
    world.admin.set(key, "mine")
    where = {ACCOUNT: world.keys.live("settlement", "account")}
    with closing(fetched(world.session, where, position(1), ledger=world.keys.own("nothing"))) as view:
        assert list(view.batches("account"))[0].num_rows == 0
    stream.span(update(ACCOUNT, account(1), account(1, "b")))
    assert world.rows(ACCOUNT) == texts(account(1, "b"))


def test_maintenance_leaves_the_rows_of_a_snapshot_that_is_published_while_it_looks(
    world: RedisWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It removed them, and the table then joined without a row."""
    monkeypatch.setattr(maintenance, "resolve", server.resolve)
    carrying(world, ACCOUNT).span()
    found: list[Joining] = []
    right = maintenance.forget_tables

    def meanwhile(*given: Any) -> int:
        found.append(passed(world, TRANSFER, rows=[leg(1)], at=10))
        return right(*given)

    monkeypatch.setattr(maintenance, "forget_tables", meanwhile)
    with closing(maintenance.open_maintenance(world.destination)) as living:
        living.let_go()
    world.sink().join(STREAM, found[0])
    assert world.rows(TRANSFER) == texts(leg(1))
