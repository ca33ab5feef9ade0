"""Preflight asks the destination too, with the writer's own login on a real server."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.adapters.postgres.preflight import problems
from seamline.domain.errors import TransientError
from seamline.plan.list_change import kept_name
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database
from tests.log_topic import sync_plan

DATABASE = "destination_preflight_test"
PLAN = sync_plan()
(WAREHOUSE,) = PLAN.destinations


@pytest.fixture
def writer(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """The warehouse is an empty database on which the owner has run the script."""
    with postgres_database(DATABASE) as connection:
        lead_to(connection, monkeypatch)
        yield connection


def lead_to(to: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    address = f"postgres://{to.login}:{to.password}@{to.host}:{to.port}/{to.database}"
    monkeypatch.setenv("SEAMLINE_CONNECTION_WAREHOUSE", address)


def as_owner(statement: str) -> None:
    with postgres(replace(resolve("postgres_root"), database=DATABASE)) as session:
        session.execute(statement)


def test_the_grant_script_is_enough_for_preflight(writer: Connection) -> None:
    assert problems(PLAN, WAREHOUSE) == ()


@pytest.mark.parametrize(
    ("statement", "what", "cure"),
    [
        (
            "REVOKE CREATE ON DATABASE {database} FROM {writer}",
            "has no CREATE on database",
            "seamline grants warehouse",
        ),
        ("REVOKE TEMPORARY ON DATABASE {database} FROM {writer}", "has no TEMPORARY", "seamline grants warehouse"),
        ("CREATE SCHEMA settlement", "schema settlement is there already, belongs to", "GRANT USAGE, CREATE ON SCHEMA"),
        ("CREATE SCHEMA settlement_cut", "schema settlement_cut is there already", "declare another schema"),
        ("CREATE SCHEMA seamline", "schema seamline is there already", "GRANT USAGE, CREATE ON SCHEMA seamline"),
        (
            "ALTER DATABASE {database} SET default_transaction_read_only = on",
            "are read only",
            "RESET default_transaction_read_only",
        ),
    ],
)
def test_what_would_keep_tables_out_is_told_before_anything_is_read(
    writer: Connection, statement: str, what: str, cure: str
) -> None:
    as_owner(statement.format(database=DATABASE, writer=writer.login))
    (problem,) = problems(PLAN, WAREHOUSE)
    assert problem.is_fatal
    assert problem.what.startswith("destination warehouse: ") and what in problem.what
    assert cure in problem.cure


def test_schemas_that_the_writer_may_use_are_no_problem(writer: Connection) -> None:
    as_owner("CREATE SCHEMA settlement")
    as_owner(f"GRANT USAGE, CREATE ON SCHEMA settlement TO {writer.login}")
    assert problems(PLAN, WAREHOUSE) == ()


def test_a_unique_index_that_is_checked_row_by_row_is_told_and_stops_nothing(writer: Connection) -> None:
    with postgres(writer) as session:
        session.execute("CREATE SCHEMA settlement")
        session.execute("CREATE TABLE settlement.account (id int PRIMARY KEY, name text, code text)")
        session.execute("ALTER TABLE settlement.account ADD UNIQUE (code) DEFERRABLE INITIALLY DEFERRED")
        assert problems(PLAN, WAREHOUSE) == ()
        session.execute("CREATE UNIQUE INDEX by_name ON settlement.account (name)")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert not problem.is_fatal
    assert "settlement.account has the unique index by_name" in problem.what
    assert "deleted and inserted anew" in problem.what
    assert "DEFERRABLE" in problem.cure


def test_a_view_that_still_reads_a_table_as_it_was_when_it_left_is_told_and_stops_nothing(writer: Connection) -> None:
    """Whoever parks a table and takes it back would see the rows of before in it for ever."""
    kept = kept_name("account", "the run that took it out")
    with postgres(writer) as session:
        session.execute("CREATE SCHEMA settlement")
        session.execute(f"CREATE TABLE settlement.{kept} (id int PRIMARY KEY)")
        session.execute("CREATE TABLE settlement.account (id int PRIMARY KEY)")
        session.execute(f"CREATE TABLE settlement.{kept_name('elsewhere', 'a run')} (id int)")
        session.execute("CREATE VIEW public.of_now AS SELECT * FROM settlement.account")
        assert problems(PLAN, WAREHOUSE) == ()
        session.execute(f"CREATE VIEW public.of_then AS SELECT * FROM settlement.{kept}")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert not problem.is_fatal
    assert f"of_then reads settlement.{kept}, which holds account as it was when it left" in problem.what


def test_a_unique_index_on_a_table_without_a_key_is_told_as_what_stops_its_stream(writer: Connection) -> None:
    with postgres(writer) as session:
        session.execute("CREATE SCHEMA settlement")
        session.execute("CREATE TABLE settlement.account (id int, name text)")
        session.execute("CREATE UNIQUE INDEX by_name ON settlement.account (name)")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert not problem.is_fatal
    assert "exchange their values stops the stream" in problem.what


def test_a_database_that_cannot_hold_every_letter_is_refused(
    writer: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = f"{DATABASE}_latin"
    with postgres(resolve("postgres_root")) as session:
        session.execute(f"DROP DATABASE IF EXISTS {latin}")
        session.execute(f"CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0 OWNER {writer.login}")
    try:
        lead_to(replace(writer, database=latin), monkeypatch)
        (problem,) = problems(PLAN, WAREHOUSE)
        assert "encoded in LATIN1" in problem.what
    finally:
        with postgres(resolve("postgres_root")) as session:
            session.execute(f"DROP DATABASE {latin}")


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"database": "nowhere"}, {"login": "nobody_of_this_name"}])
def test_a_session_that_is_refused_is_a_problem_with_its_cure(
    writer: Connection, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, str]
) -> None:
    lead_to(replace(writer, **wrong), monkeypatch)  # type: ignore[arg-type]
    (problem,) = problems(PLAN, WAREHOUSE)
    assert "refuses the session" in problem.what
    assert "check login, password and database" in problem.cure
    assert writer.password not in problem.what


def test_a_server_that_is_away_is_waited_for(writer: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(replace(writer, port=1), monkeypatch)
    with pytest.raises(TransientError, match="cannot be reached"):
        problems(PLAN, WAREHOUSE)
