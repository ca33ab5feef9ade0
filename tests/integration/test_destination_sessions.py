"""Sessions to a destination whose role and database have time-outs, and whose server refuses what no repeat mends; and
how long a session waits for a server that no packet reaches.
"""

import random
import socket
from collections.abc import Callable, Iterator
from contextlib import closing

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres import client as destination_client
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.kinds.bulk import StagedPlace
from seamline.sinks.postgres.staging import build_index
from seamline.sources.postgres import client as source_client
from tests.contract.behaviours import Applying, account, texts
from tests.contract.worlds import PostgresWorld
from tests.integration.databases import postgres, postgres_database
from tests.integration.test_postgres_publish import publish
from tests.log_topic import ACCOUNT, STREAM, TABLES, insert, publication

TIME_OUTS = ("statement_timeout", "transaction_timeout", "lock_timeout", "idle_session_timeout")
# Not compressible, and longer than an index takes.
LARGE = "".join(random.Random(7).choices("0123456789abcdefghijklmnopqrstuvwxyz", k=8_000))


@pytest.fixture(scope="module")
def database(stack: object) -> Iterator[Connection]:
    with postgres_database("destination_sessions") as connection:
        yield connection


@pytest.fixture
def world(database: Connection) -> Iterator[PostgresWorld]:
    made = PostgresWorld(TABLES, database)
    yield made
    made.close()


@pytest.fixture
def hasty(database: Connection) -> Iterator[None]:
    """Whatever takes 100 ms is over, for everybody whose session says nothing else."""
    with closing(postgres(resolve("postgres_root"))) as session:
        for name in TIME_OUTS:
            session.execute(f"ALTER DATABASE {database.database} SET {name} = '100ms'".encode())
        yield
        for name in TIME_OUTS:
            session.execute(f"ALTER DATABASE {database.database} RESET {name}".encode())


def test_time_outs_of_the_role_or_the_database_end_no_span(world: PostgresWorld, hasty: None) -> None:
    publish(world)
    world.session.execute(
        "CREATE FUNCTION settlement.slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM pg_catalog.pg_sleep(0.3); RETURN NULL; END$$"
    )
    world.session.execute("CREATE TRIGGER slow AFTER INSERT ON settlement.account EXECUTE FUNCTION settlement.slow()")
    stream = Applying(world)
    stream.span(insert(ACCOUNT, **account(1)))
    world.session.execute("SELECT pg_sleep(0.3)")
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


@pytest.mark.parametrize(
    "open_session",
    [lambda c: destination_client.open_session(c, application_name="s"), source_client.open_session],
    ids=["of a destination", "of a source"],
)
def test_a_question_of_which_every_packet_is_lost_is_given_up(
    open_session: Callable[[Connection], destination_client.Session], database: Connection
) -> None:
    """What the system was asked for: to lose packets, which only a router does, takes one."""
    with closing(open_session(database)) as session, socket.socket(fileno=session.fileno()) as wire:
        user_timeout_ms = wire.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        wire.detach()
    assert 0 < user_timeout_ms <= 60_000


def test_a_row_too_large_for_an_index_stops_the_stream_by_name(world: PostgresWorld) -> None:
    publish(world)
    world.session.execute("ALTER TABLE settlement.audit ALTER COLUMN action SET STORAGE EXTERNAL")
    world.session.execute("CREATE INDEX own ON settlement.audit (action)")
    stream = Applying(world)
    audit = TABLES[-1]
    with pytest.raises(SchemaConflict, match=r'index row.*"own"') as caught:
        stream.span(insert(audit, actor="x", action=LARGE))
    assert caught.value.table == "audit"
    assert "drop it and start again" in caught.value.hint


def test_a_key_too_large_for_its_index_stops_a_load_and_a_publish_by_name(
    world: PostgresWorld, database: Connection
) -> None:
    keyed = Table("large", (Column("id", Kind.STRING, "text", nullable=False),), ("id",))
    load = world.load(keyed, [{"id": LARGE}])
    with pytest.raises(SchemaConflict, match="index row"):
        build_index(database, StagedPlace(keyed, "settlement_stage", load.staged_as))
    with pytest.raises(SchemaConflict, match="index row"):
        world.sink().publish(STREAM, [load], publication=publication([keyed]))
