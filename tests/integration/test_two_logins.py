"""A destination of two logins: the publisher makes tables, and the stream's has their rows and nothing else."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import psycopg
import pytest
from psycopg import errors

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import Fenced, Refused
from seamline.sinks.postgres.grants import grant_statements
from seamline.stack import postgres as stack_postgres
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.worlds import PostgresWorld
from tests.integration.databases import PUBLISHER, either_of, postgres, postgres_database, writer_of
from tests.integration.known import destination_variables
from tests.log_topic import ACCOUNT, STREAM, TABLES, insert, publication
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until

DATABASE = "two_logins"
# What a person would notice, each as a statement that the publisher may run.
DDL = (
    "CREATE SCHEMA of_my_own",
    "CREATE TABLE settlement.of_my_own (n int)",
    "CREATE UNLOGGED TABLE seamline.of_my_own (n int)",
    "CREATE TABLE settlement_stage.of_my_own (n int)",
    "CREATE TABLE public.of_my_own (n int)",
    "CREATE VIEW settlement.of_my_own AS SELECT 1 AS n",
    "CREATE INDEX ON settlement.account (name)",
    "ALTER TABLE settlement.account ADD COLUMN of_my_own int",
    "ALTER TABLE settlement.account ALTER COLUMN name TYPE varchar(80)",
    "ALTER TABLE settlement.account RENAME TO of_my_own",
    "ALTER TABLE settlement.account SET SCHEMA seamline",
    "ALTER TABLE seamline.ledger ADD COLUMN of_my_own int",
    "ALTER SCHEMA settlement RENAME TO of_my_own",
    "TRUNCATE settlement.account",
    "DROP TABLE settlement.account",
    "DROP TABLE seamline.ledger CASCADE",
    "DROP SCHEMA settlement CASCADE",
)


@pytest.fixture
def database(stack: object) -> Iterator[Connection]:
    with postgres_database(DATABASE) as connection:
        yield connection


@pytest.fixture
def world(database: Connection) -> Iterator[PostgresWorld]:
    with closing(PostgresWorld(TABLES, database)) as made:
        yield made


def as_owner(*statements: str) -> None:
    with postgres(replace(resolve("postgres_root"), database=DATABASE)) as session:
        for statement in statements:
            session.execute(statement.encode())


def refused(session: "psycopg.Connection[Any]", statement: str) -> bool:
    try:
        with session.transaction(force_rollback=True):
            session.execute(statement.encode())
    except errors.InsufficientPrivilege:
        return True
    return False


def test_the_writer_can_make_alter_and_drop_nothing_where_the_publisher_can(
    world: PostgresWorld, database: Connection
) -> None:
    published(world).span(insert(ACCOUNT, **account(1)))
    with postgres(writer_of(database)) as writer:
        assert [statement for statement in DDL if not refused(writer, statement)] == []
    assert [statement for statement in DDL if refused(world.session, statement)] == []


def test_a_writer_with_more_rights_than_the_script_gives_is_noticed(world: PostgresWorld, database: Connection) -> None:
    published(world)
    writer = writer_of(database)
    world.session.execute(f"GRANT CREATE ON SCHEMA settlement TO {writer.login}")
    with postgres(writer) as session:
        may = [statement for statement in DDL if not refused(session, statement)]
    assert may == [statement for statement in DDL if statement.startswith(("CREATE TABLE settlement.", "CREATE VIEW"))]


def test_tables_for_a_large_transaction_are_temporary_and_end_with_its_stream(
    world: PostgresWorld, database: Connection
) -> None:
    stream = published(world)
    changes = [insert(ACCOUNT, **account(n)) for n in range(20)]
    for batch in stream.batches(*changes, chunks=2):
        stream.sink.stage(stream.lease, batch)
    asked = "SELECT pg_get_userbyid(relowner), relpersistence::text FROM pg_class WHERE relname LIKE 'seamline_chunks%'"
    assert world.session.execute(asked).fetchall() == [(writer_of(database).login, "t")]
    again = Applying(world)
    wait_until(
        lambda: not world.session.execute(asked).fetchall(), timeout_s=30, what="the session of the epoch before to end"
    )
    again.span(*changes, chunks=3)
    assert world.rows(ACCOUNT) == texts(*(account(n) for n in range(20)))


def test_a_publish_while_the_stream_runs_leaves_it_able_to_go_on(world: PostgresWorld) -> None:
    """What is loaded again are the publisher's rows in the same table; what is new is the writer's at once."""
    stream = published(world)
    stream.span(*(insert(ACCOUNT, **account(n)) for n in range(3)))
    loads = [world.load(table, [account(7)] if table is ACCOUNT else []) for table in TABLES]
    world.sink().publish(STREAM, loads, publication=publication(run_id="run-2", next_offset=stream.next_offset))
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(8)))
    Applying(world).span(insert(ACCOUNT, **account(9)))
    assert world.rows(ACCOUNT) == texts(account(7), account(9))


def test_a_destination_of_one_login_takes_a_writer_when_its_owner_has_run_the_script(stack: object) -> None:
    with postgres_database(DATABASE, writer=PUBLISHER) as database:
        writer = writer_of(database).login
        with (
            closing(PostgresWorld(TABLES, database, resolve=lambda _: database)) as before,
            closing(postgres_sink(before.plan, before.plan.destinations[0], resolve=either_of(database))) as new,
        ):
            old = published(before)
            old.span(insert(ACCOUNT, **account(1)))
            as_owner(f"GRANT CONNECT ON DATABASE {DATABASE} TO {writer}")
            with pytest.raises(Refused, match="permission denied for schema seamline") as caught:
                new.acquire(STREAM)
            assert "seamline grants" in caught.value.hint
            as_owner(*grant_statements(DATABASE, publisher=database.login, writer=writer))
            # The worker of before has another login: it cannot be ended, and can commit nothing.
            going_on = Applying(before, sink=new)
            going_on.span(*(insert(ACCOUNT, **account(n)) for n in range(2, 30)), chunks=3)
            with pytest.raises(Fenced):
                old.span(insert(ACCOUNT, **account(99)))
            assert before.rows(ACCOUNT) == texts(*(account(n) for n in range(1, 30)))


def test_a_session_of_another_login_that_bears_a_stream_s_name_does_not_keep_a_worker_out(
    world: PostgresWorld, database: Connection
) -> None:
    stream = published(world)
    with postgres(database) as foreign, postgres(writer_of(database)) as own:
        for session in (foreign, own):
            session.execute(f"SET application_name = 'seamline:{STREAM}:e{stream.lease.epoch}'")
        Applying(world).span(insert(ACCOUNT, **account(1)))
        assert foreign.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(psycopg.OperationalError):
            own.execute("SELECT 1")


def test_row_security_that_would_hide_rows_from_the_stream_stops_it_by_name(
    world: PostgresWorld, database: Connection
) -> None:
    """Hidden rows are taken for missing otherwise: an insert fails, and a delete meets nothing without a word."""
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    world.session.execute("ALTER TABLE settlement.account ENABLE ROW LEVEL SECURITY")
    with pytest.raises(Refused, match="row-level security policy"):
        stream.span(insert(ACCOUNT, **account(2)))
    as_owner(f"ALTER ROLE {writer_of(database).login} BYPASSRLS")
    try:
        Applying(world).span(insert(ACCOUNT, **account(2)))
    finally:
        as_owner(f"ALTER ROLE {writer_of(database).login} NOBYPASSRLS")
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


def test_a_trigger_that_somebody_has_put_on_a_live_table_runs_as_the_writer(
    world: PostgresWorld, database: Connection
) -> None:
    stream = published(world)
    world.session.execute(
        "CREATE TABLE settlement.told (who text, n int GENERATED ALWAYS AS IDENTITY);"
        "CREATE FUNCTION settlement.tell() RETURNS trigger LANGUAGE plpgsql AS"
        " 'BEGIN INSERT INTO settlement.told (who) VALUES (current_user); RETURN NULL; END';"
        "CREATE TRIGGER tell AFTER INSERT ON settlement.account EXECUTE FUNCTION settlement.tell()"
    )
    stream.span(insert(ACCOUNT, **account(1)))
    assert world.session.execute("SELECT who FROM settlement.told").fetchall() == [(writer_of(database).login,)]


def test_a_stack_of_before_keeps_its_tables_when_its_destination_gets_a_second_login(stack: object) -> None:
    root = resolve("postgres_root")
    owner = replace(root, login="kept_publisher", password="p", database="kept_warehouse")
    before = replace(owner, login="kept_warehouse_writer")
    known = settings.load(
        {
            **settings.as_environment(settings.load()),
            **destination_variables(owner, "warehouse"),
            "SEAMLINE_CONNECTION_WAREHOUSE_WRITER": f"postgres://{before.login}:w@{root.host}:{root.port}/{owner.database}",
        }
    )
    try:
        with postgres(root) as session:
            session.execute(f"CREATE ROLE {before.login} LOGIN PASSWORD 'p'".encode())
            session.execute(f"CREATE DATABASE {owner.database}".encode())
            session.execute(f"GRANT CREATE ON DATABASE {owner.database} TO {before.login}".encode())
        with postgres(before) as session:
            session.execute("CREATE SCHEMA live")
            session.execute("CREATE TABLE live.account (n int)")
        for _ in range(2):
            stack_postgres.provision(known)
        with postgres(owner) as session:
            session.execute("ALTER TABLE live.account ADD COLUMN m int")
            session.execute("CREATE TABLE live.later (n int)")
        with postgres(resolve("warehouse_writer", within=known)) as session:
            session.execute("INSERT INTO live.account VALUES (1, 2)")
            session.execute("INSERT INTO live.later VALUES (1)")
            assert refused(session, "DROP TABLE live.account")
    finally:
        with postgres(root) as session:
            session.execute(f"DROP DATABASE IF EXISTS {owner.database} WITH (FORCE)".encode())
            for login in (owner.login, before.login):
                session.execute(f"DROP ROLE IF EXISTS {login}".encode())
