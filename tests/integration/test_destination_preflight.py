"""Preflight asks the destination too, with the own logins of its publisher and its writer on a real server."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.client import Session
from seamline.databases.postgres.ledger import create_tables
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import TransientError
from seamline.plan.list_change import kept_name
from seamline.plan.model import NightlyPlan, TablePlan
from seamline.sinks.postgres.grants import grant_statements
from seamline.sinks.postgres.preflight import problems
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database, writer_of
from tests.integration.known import destination_known_by_id
from tests.log_topic import sync_plan

DATABASE = "destination_preflight_test"
PLAN = sync_plan()
(WAREHOUSE,) = PLAN.destinations


@pytest.fixture
def publisher(stack: RunningStack) -> Iterator[Connection]:
    """The warehouse is an empty database on which the owner has run the script."""
    with postgres_database(DATABASE) as connection, destination_known_by_id(connection, "warehouse"):
        yield connection


def lead_to(to: Connection, monkeypatch: pytest.MonkeyPatch, connection_id: str = "WAREHOUSE") -> None:
    address = f"postgres://{to.login}:{to.password}@{to.host}:{to.port}/{to.database}"
    monkeypatch.setenv(f"SEAMLINE_CONNECTION_{connection_id}", address)


def as_owner(statement: str) -> None:
    with postgres(replace(resolve("postgres_root"), database=DATABASE)) as session:
        session.execute(statement.encode())


def test_the_grant_script_is_enough_for_preflight(publisher: Connection) -> None:
    assert problems(PLAN, WAREHOUSE) == ()


@pytest.mark.parametrize(
    ("statement", "what", "cure"),
    [
        (
            "REVOKE CREATE ON DATABASE {database} FROM {publisher}",
            "{publisher} has no CREATE on database",
            "seamline grants warehouse",
        ),
        (
            "REVOKE TEMPORARY ON DATABASE {database} FROM {writer}",
            "{writer} has no TEMPORARY",
            "seamline grants warehouse",
        ),
        ("CREATE SCHEMA settlement", "schema settlement is there already, belongs to", "GRANT USAGE, CREATE ON SCHEMA"),
        ("CREATE SCHEMA settlement", '"{writer}" may not use what is in "settlement"', "GRANT USAGE ON SCHEMA"),
        ("CREATE SCHEMA settlement_cut", "schema settlement_cut is there already", "declare another schema"),
        ("CREATE SCHEMA seamline", "schema seamline is there already", "GRANT USAGE, CREATE ON SCHEMA seamline"),
        (
            "ALTER ROLE {writer} IN DATABASE {database} SET default_transaction_read_only = on",
            "sessions of {writer} are read only",
            "RESET default_transaction_read_only",
        ),
        (
            "ALTER DATABASE {database} SET default_transaction_read_only = on",
            "sessions of {publisher} are read only",
            "RESET default_transaction_read_only",
        ),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE {publisher} REVOKE USAGE ON SCHEMAS FROM {writer}",
            "{writer} will not have USAGE on what {publisher} makes",
            "seamline grants warehouse",
        ),
        (
            "ALTER DEFAULT PRIVILEGES FOR ROLE {publisher} REVOKE UPDATE, DELETE ON TABLES FROM {writer}",
            "{writer} will not have DELETE, UPDATE on what {publisher} makes",
            "seamline grants warehouse",
        ),
    ],
)
def test_what_would_keep_tables_out_is_reported_before_anything_is_read(
    publisher: Connection, statement: str, what: str, cure: str
) -> None:
    names = {"database": DATABASE, "publisher": publisher.login, "writer": writer_of(publisher).login}
    as_owner(statement.format(**names))
    found = problems(PLAN, WAREHOUSE)
    (problem,) = (one for one in found if what.format(**names) in one.what)
    assert problem.what.startswith("destination warehouse: ")
    assert cure in problem.cure
    assert all(one.is_fatal for one in found)


def test_names_that_nightly_cuts_would_take_are_reported_with_a_cure_that_loses_nothing(publisher: Connection) -> None:
    """What Seamline's own streams and cuts of other syncs have made there, and what anybody else has."""
    nightly = replace(PLAN, nightly=NightlyPlan())
    with postgres(publisher) as session:
        session.execute("CREATE SCHEMA settlement; CREATE SCHEMA settlement_cut; CREATE SCHEMA seamline")
        session.execute("CREATE TABLE settlement.account_proven (id int)")
        session.execute("CREATE TABLE settlement_cut.transfer_current (id int)")
        session.execute("CREATE TABLE settlement_cut.audit (id int)")
        session.execute("CREATE TABLE seamline.cut_table (sync text)")
        session.execute("CREATE VIEW settlement.audit_proven AS SELECT FROM seamline.cut_table WHERE sync = 'treasury'")
        session.execute("CREATE VIEW settlement.transfer_proven AS SELECT 1 AS one")
        own = "SELECT FROM seamline.cut_table WHERE sync = 'settlement'"
        session.execute(f"CREATE VIEW settlement_cut.account_current AS {own}".encode())
    assert problems(PLAN, WAREHOUSE) == ()
    found = {one.what.split(": ", 1)[1]: one for one in problems(nightly, WAREHOUSE)}
    assert all(one.is_fatal for one in found.values())
    cures = {what.split(",")[0]: one.cure for what, one in found.items()}
    assert cures.keys() == {
        '"settlement"."account_proven" is a table',
        '"settlement_cut"."transfer_current" is a table',
        '"settlement_cut"."audit" is a table',
        '"settlement"."audit_proven" is the view of another sync\'s cuts',
        '"settlement"."transfer_proven" is a view that no sync made',
    }
    assert "DROP VIEW" in cures.pop('"settlement"."audit_proven" is the view of another sync\'s cuts')
    assert all("RENAME TO" in cure and "drop" not in cure.lower() for cure in cures.values())


def test_columns_with_names_that_postgresql_or_the_cuts_have_taken_are_reported_by_name(publisher: Connection) -> None:
    """Names in other cases are others: they are quoted everywhere."""
    whole = Column("id", Kind.INTEGER, "int", nullable=False, length=32)
    names = ("xmin", "ctid", "tableoid", "cmin", "cmax", "xmax", "seamline.offset", "cut_version", "cut_business_date")
    fine = ("XMIN", "oid", "Cut_Version", "seamline_offset")
    table = Table("account", (whole, *(replace(whole, name=name) for name in (*names, *fine))), ("id",))
    plan = replace(PLAN, tables=(TablePlan("account", table=table), TablePlan("transfer")), nightly=NightlyPlan())
    found = problems(plan, WAREHOUSE)
    assert [one.what.split(" of table account")[0] for one in found] == [
        f"destination warehouse: column {name}" for name in names
    ]
    assert all(one.is_fatal and "rename the column at the source" in one.cure for one in found)
    without = problems(replace(plan, nightly=None), WAREHOUSE)
    assert len(without) == len(found) - 2, "no cut, no columns of its own"


def test_schemas_that_both_logins_may_use_are_no_problem(publisher: Connection) -> None:
    as_owner("CREATE SCHEMA settlement")
    as_owner(f"GRANT USAGE, CREATE ON SCHEMA settlement TO {publisher.login}")
    as_owner(f"GRANT USAGE ON SCHEMA settlement TO {writer_of(publisher).login}")
    assert problems(PLAN, WAREHOUSE) == ()


@pytest.mark.parametrize(
    ("statement", "what"),
    [
        (
            "REVOKE USAGE ON SCHEMA seamline, settlement FROM {writer}",
            'may not use what is in "seamline", "settlement"',
        ),
        ("REVOKE DELETE ON settlement.account FROM {writer}", 'may not write rows of "settlement"."account"'),
        ("REVOKE ALL ON seamline.ledger, seamline.finding FROM {writer}", '"seamline"."finding", "seamline"."ledger"'),
    ],
)
def test_a_right_of_the_writer_on_what_is_there_is_asked_and_the_cure_gives_it(
    publisher: Connection, statement: str, what: str
) -> None:
    made_tables(publisher)
    assert problems(PLAN, WAREHOUSE) == ()
    as_owner(statement.format(writer=writer_of(publisher).login))
    (problem,) = problems(PLAN, WAREHOUSE)
    assert problem.is_fatal and what in problem.what
    as_owner(problem.cure.removeprefix("let its owner "))
    assert problems(PLAN, WAREHOUSE) == ()


def made_tables(publisher: Connection, columns: str = "id int PRIMARY KEY, name text") -> None:
    """As the stream of the plan has made them."""
    with postgres(publisher) as session:
        create_tables(session)
        session.execute("CREATE SCHEMA settlement")
        session.execute(f"CREATE TABLE settlement.account ({columns})".encode())
        carried_by("settlement@warehouse", session)


def carried_by(stream: str, session: Session) -> None:
    session.execute(
        "INSERT INTO seamline.boundary (stream, table_name, generation, position) VALUES (%s, 'account', 1, '{}')",
        (stream,),
    )


def test_a_table_that_another_sync_carries_is_reported_with_the_way_to_move_it(publisher: Connection) -> None:
    """And not only at the publish, when all of it has been read."""
    with postgres(publisher) as session:
        session.execute("CREATE SCHEMA settlement")
        session.execute("CREATE TABLE settlement.account (id int)")
        (nobodys,) = problems(PLAN, WAREHOUSE)
        assert nobodys.is_fatal and "was not made by settlement@warehouse" in nobodys.what
        assert 'ALTER TABLE "settlement"."account" RENAME TO' in nobodys.cure
        create_tables(session)
        carried_by("treasury@warehouse", session)
        (problem,) = problems(PLAN, WAREHOUSE)
        assert problem.is_fatal and problem.what.endswith("treasury@warehouse carries it")
        assert "take it out of the list of treasury and run `treasury__tables`" in problem.cure
        session.execute("UPDATE seamline.boundary SET removed_at = now()")
        session.execute("ALTER TABLE settlement.account RENAME TO kept")
        assert problems(PLAN, WAREHOUSE) == ()


def test_row_security_that_hides_rows_from_the_writer_is_reported(publisher: Connection) -> None:
    made_tables(publisher)
    with postgres(publisher) as session:
        session.execute("ALTER TABLE settlement.account ENABLE ROW LEVEL SECURITY")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert problem.is_fatal
    assert f"hides rows of settlement.account from {writer_of(publisher).login}" in problem.what
    assert "BYPASSRLS" in problem.cure


def test_two_logins_that_lead_to_two_databases_are_reported(
    publisher: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    lead_to(replace(writer_of(publisher), database="warehouse"), monkeypatch, "WAREHOUSE_WRITER")
    assert ["lead to different databases" in problem.what for problem in problems(PLAN, WAREHOUSE)] == [True]


def test_one_login_for_both_roles_needs_the_rights_of_both(publisher: Connection) -> None:
    alone = replace(WAREHOUSE, writer_connection="")
    (problem,) = problems(PLAN, alone)
    assert f"{publisher.login} has no TEMPORARY" in problem.what
    for statement in grant_statements(DATABASE, publisher=publisher.login, writer=publisher.login):
        as_owner(statement)
    assert problems(PLAN, alone) == ()


def test_a_writer_that_is_a_member_of_the_publisher_has_what_it_needs(publisher: Connection) -> None:
    writer = writer_of(publisher)
    made_tables(publisher)
    as_owner(f"REVOKE ALL ON ALL TABLES IN SCHEMA seamline FROM {writer.login}")
    assert problems(PLAN, WAREHOUSE) != ()
    as_owner(f"GRANT {publisher.login} TO {writer.login}")
    try:
        assert problems(PLAN, WAREHOUSE) == ()
    finally:
        as_owner(f"REVOKE {publisher.login} FROM {writer.login}")


def test_a_unique_index_that_is_checked_row_by_row_is_reported_and_stops_nothing(publisher: Connection) -> None:
    made_tables(publisher, "id int PRIMARY KEY, name text, code text")
    with postgres(publisher) as session:
        session.execute("ALTER TABLE settlement.account ADD UNIQUE (code) DEFERRABLE INITIALLY DEFERRED")
        assert problems(PLAN, WAREHOUSE) == ()
        session.execute("CREATE UNIQUE INDEX by_name ON settlement.account (name)")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert not problem.is_fatal
    assert "settlement.account has the unique index by_name" in problem.what
    assert "deleted and inserted again" in problem.what
    assert "DEFERRABLE" in problem.cure


def test_a_view_that_still_reads_a_table_as_it_was_when_it_left_is_reported_and_stops_nothing(
    publisher: Connection,
) -> None:
    """Whoever parks a table and takes it back would see the rows of before in it for ever."""
    kept = kept_name("account", "the run that took it out")
    made_tables(publisher)
    with postgres(publisher) as session:
        session.execute(f"CREATE TABLE settlement.{kept} (id int PRIMARY KEY)")
        session.execute(f"CREATE TABLE settlement.{kept_name('elsewhere', 'a run')} (id int)")
        session.execute("CREATE VIEW public.of_now AS SELECT * FROM settlement.account")
        assert problems(PLAN, WAREHOUSE) == ()
        session.execute(f"CREATE VIEW public.of_then AS SELECT * FROM settlement.{kept}")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert not problem.is_fatal
    assert f"of_then reads settlement.{kept}, which holds account as it was when it left" in problem.what


def test_a_unique_index_on_a_table_without_a_key_is_reported_as_what_stops_its_stream(publisher: Connection) -> None:
    made_tables(publisher, "id int, name text")
    with postgres(publisher) as session:
        session.execute("CREATE UNIQUE INDEX by_name ON settlement.account (name)")
    (problem,) = problems(PLAN, WAREHOUSE)
    assert not problem.is_fatal
    assert "exchange their values stops the stream" in problem.what


def test_a_database_that_cannot_hold_every_letter_is_refused(
    publisher: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    latin = f"{DATABASE}_latin"
    with postgres(resolve("postgres_root")) as session:
        session.execute(f"DROP DATABASE IF EXISTS {latin}")
        session.execute(
            f"CREATE DATABASE {latin} ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0 OWNER {publisher.login}"
        )
    try:
        lead_to(replace(publisher, database=latin), monkeypatch)
        (problem,) = problems(PLAN, replace(WAREHOUSE, writer_connection=""))
        assert "encoded in LATIN1" in problem.what
    finally:
        with postgres(resolve("postgres_root")) as session:
            session.execute(f"DROP DATABASE {latin}")


@pytest.mark.parametrize("wrong", [{"password": "wrong"}, {"database": "nowhere"}, {"login": "nobody_of_this_name"}])
@pytest.mark.parametrize("connection_id", ["WAREHOUSE", "WAREHOUSE_WRITER"])
def test_a_session_that_is_refused_is_a_problem_with_its_cure(
    publisher: Connection, monkeypatch: pytest.MonkeyPatch, connection_id: str, wrong: dict[str, str]
) -> None:
    lead_to(replace(publisher, **wrong), monkeypatch, connection_id)  # type: ignore[arg-type]
    (problem,) = problems(PLAN, WAREHOUSE)
    assert "refuses the session" in problem.what
    assert "check login, password and database" in problem.cure
    assert publisher.password not in problem.what


def test_a_server_that_is_away_is_waited_for(publisher: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(replace(publisher, port=1), monkeypatch)
    with pytest.raises(TransientError, match="cannot be reached"):
        problems(PLAN, WAREHOUSE)
