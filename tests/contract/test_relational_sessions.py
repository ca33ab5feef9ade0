"""Sessions of a MariaDB and MySQL destination: whose they are, what a new owner ends, and what a server's settings and
errors mean."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import replace
from urllib.parse import quote

import pytest

from seamline.domain.errors import SeamlineError, TerminalError, TransientError
from seamline.kinds.found import logged_kind
from seamline.plan.model import DestinationPlan
from seamline.ports import Sink
from seamline.sinks.relational.preflight import problems
from seamline.sinks.relational.session import lock_name, query
from seamline.sinks.relational.sink import RelationalSink
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.relational_worlds import AT, RELATIONAL, MariaDbWorld, relational_maker
from tests.integration.databases import mariadb, mariadb_writer_of
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert, publication
from tests.waiting import wait_until

OWNER = lock_name(f"stream {AT} {STREAM}")


@pytest.fixture(params=[*RELATIONAL])
def world(request: pytest.FixtureRequest) -> Iterator[MariaDbWorld]:
    with closing(relational_maker(request.param, request)(TABLES)) as made:
        yield made


@pytest.fixture
def destination(world: MariaDbWorld, monkeypatch: pytest.MonkeyPatch) -> DestinationPlan:
    """The world's, with both its logins known by their ids."""
    for one in (world.publisher, mariadb_writer_of(world.publisher)):
        address = f"{one.login}:{quote(one.password, safe='')}@{one.host}:{one.port}"
        monkeypatch.setenv(f"SEAMLINE_CONNECTION_{one.connection_id.upper()}", f"mysql://{address}/")
    return DestinationPlan("warehouse", world.kind, "settlement", "settlement", writer_connection="settlement_writer")


@contextmanager
def set_to(world: MariaDbWorld, name: str, value: str) -> Iterator[None]:
    ((before,),) = world.fetch(f"SELECT @@GLOBAL.{name}")
    world.do(f"SET GLOBAL {name} = {value}")
    try:
        yield
    finally:
        world.do(f"SET GLOBAL {name} = {before}")


# ---- whose stream a session has --------------------------------------------------------------------------------------


def test_streams_of_one_name_in_two_databases_of_a_server_do_not_end_each_other(world: MariaDbWorld) -> None:
    """Of two installations: sync, destination and login have the same names."""
    with closing(_into(world, "settlement")) as first, closing(_into(world, "settlement_other")) as other:
        for sink in (first, other):
            loads = [world.load(table, []) for table in TABLES]
            staged = [replace(load, staged_as=f"settlement_stage.{load.staged_as}") for load in loads]
            sink.publish(STREAM, staged, publication=publication())
        stream = Applying(world, sink=first)
        other.acquire(STREAM)
        stream.span(insert(ACCOUNT, **account(1)))
    assert world.rows(ACCOUNT) == texts(account(1))


def _into(world: MariaDbWorld, database: str) -> Sink:
    return RelationalSink(
        world.plan,
        replace(world.plan.destinations[0], namespace=database),
        decoder=logged_kind(world.plan.source.kind).change_decoder(world.plan.source),
        dialect=world.dialect,
        resolve=lambda _: world.publisher,
    )


def test_a_new_owner_is_found_although_the_lock_of_the_one_before_ends_late(world: MariaDbWorld) -> None:
    stream = published(world)
    with closing(mariadb(replace(world.root, database=""))) as late, ThreadPoolExecutor(1) as pool:
        stream.sink.close()
        assert query(late, "SELECT GET_LOCK(%s, 15)", (OWNER,)) == ((1,),)
        taken = pool.submit(world.sink().acquire, STREAM)
        waits = (
            f"SELECT COUNT(*) FROM information_schema.processlist WHERE state = 'User lock' AND info LIKE '%{OWNER}%'"
        )
        wait_until(lambda: query(late, waits) == ((1,),), timeout_s=30, what="the new owner waits for the lock")
        query(late, "DO RELEASE_LOCK(%s)", (OWNER,))
        taken.result(30)
        ((owner,),) = query(late, "SELECT IS_USED_LOCK(%s)", (OWNER,))
    assert owner is not None


def test_a_new_owner_ends_no_commit_that_waits_for_a_replica(request: pytest.FixtureRequest) -> None:
    """Ended, it would stand, and be seen, without the replica having it."""
    with closing(relational_maker("mariadb", request)(TABLES)) as world, ThreadPoolExecutor(1) as pool:
        stream = published(world)
        waits = "SELECT COUNT(*) FROM information_schema.processlist WHERE state LIKE '%semi-sync ACK%'"
        with (
            closing(mariadb(replace(world.root, database=""))) as root,
            set_to(world, "rpl_semi_sync_master_timeout", "60000"),
            set_to(world, "rpl_semi_sync_master_enabled", "1"),
        ):
            committed = pool.submit(stream.span, insert(ACCOUNT, **account(1)))
            wait_until(lambda: query(root, waits) == ((1,),), timeout_s=30, what="the COMMIT waits for a replica")
            with pytest.raises(TransientError, match="waits for a replica"):
                world.sink().acquire(STREAM)
            assert not committed.done()
        assert committed.result(30).ledger.next_offset == 10


# ---- what a server's settings mean -----------------------------------------------------------------------------------


def test_a_value_that_is_larger_than_a_packet_of_the_server_comes_in(
    world: MariaDbWorld, destination: DestinationPlan
) -> None:
    large = {"actor": "x", "action": "a" * (5 << 20)}
    with set_to(world, "max_allowed_packet", str(4 << 20)):
        load = world.load(AUDIT, [large])
        loads = [load if table is AUDIT else world.load(table, []) for table in TABLES]
        world.sink().publish(STREAM, loads, publication=publication())
        Applying(world).span(insert(AUDIT, **large))
        (advised,) = problems(world.plan, destination, world.dialect)
        with closing(mariadb(world.publisher)) as reader:
            digests = query(reader, "SELECT SHA2(CONCAT('a', action), 256) FROM settlement.audit")
    assert world.fetch("SELECT LENGTH(action) FROM settlement.audit") == ((5 << 20,),) * 2
    assert (advised.is_fatal, "max_allowed_packet is 4194304" in advised.what) == (False, True)
    assert digests == ((None,),) * 2, "what is advised against"


@pytest.mark.parametrize(
    ("number", "kind"),
    [(1047, TransientError), (1105, TerminalError)],
    ids=["a node of a cluster that is not ready", "any other"],
)
def test_an_error_of_the_server_is_no_broken_invariant(
    world: MariaDbWorld, number: int, kind: type[SeamlineError]
) -> None:
    stream = published(world)
    world.do(
        "CREATE TRIGGER settlement.speaks BEFORE INSERT ON settlement.account FOR EACH ROW"
        f" SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'as it says'"
    )
    with pytest.raises(kind, match="as it says") as raised:
        stream.span(insert(ACCOUNT, **account(1)))
    assert type(raised.value) is kind
