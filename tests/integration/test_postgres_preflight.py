"""Preflight and markers of a real PostgreSQL, with logins that have exactly what the grant script gives."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.domain.catalogue import Table
from seamline.domain.errors import Refused
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan
from seamline.ports import Marker, Problem
from seamline.sources.postgres import preflight_facts
from seamline.sources.postgres.client import role
from seamline.sources.postgres.grants import grant_script, publication_statement
from seamline.sources.postgres.marker import commit_marker
from seamline.sources.postgres.origin import ColumnOrigin, Origin
from seamline.sources.postgres.preflight import SourceFacts, check
from seamline.sources.postgres.source import PostgresSource
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database

DATABASE = "preflight_test"
LOGINS = Logins(capture="preflight_test_capture", reader="preflight_test_reader", marker="preflight_test_marker")
ROLES = (LOGINS.capture, LOGINS.reader, LOGINS.marker)
SOURCE = SourcePlan(
    name="preflight_test",
    kind="postgres",
    database=DATABASE,
    reader=LOGINS.reader,
    capture=LOGINS.capture,
    marker=LOGINS.marker,
    log_topic="seamline.preflight_test.log",
    connector="seamline-preflight_test",
    schema="core",
)
PLACES = ("700", "16450 710", "16451 711")
LOADED = msgspec.json.encode(Origin(1, 1, "d", {}, *PLACES)).decode()
ACCOUNT = Table("account", (), ("id",), origin=LOADED)
AUDIT = Table("audit", (), origin=LOADED)
ADD_AUDIT_AGAIN = "ALTER PUBLICATION seamline_preflight_test ADD TABLE core.audit"
PLACE = ("core", "seamline_marker")


@pytest.fixture
def root(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A database with a keyed and a keyless table, on which the owner has run the script."""
    try:
        with postgres_database(DATABASE) as root:
            drop_logins()
            for login in ROLES:
                address = f"postgres://{login}:pw@{root.host}:{root.port}/elsewhere"
                monkeypatch.setenv(f"SEAMLINE_CONNECTION_{login.upper()}", address)
            run(
                "CREATE SCHEMA core",
                "CREATE TABLE core.account (id int PRIMARY KEY, balance numeric(12,2))",
                "CREATE TABLE core.audit (said text, at timestamptz)",
                # Somebody has this login already.
                f"CREATE ROLE {ROLES[0]} LOGIN PASSWORD 'pw'",
                script("account", "audit"),
            )
            yield root
    finally:
        # Roles belong to the whole cluster, and can go only after what they were granted.
        drop_logins()


def script(*tables: str) -> str:
    text = grant_script(SOURCE, tables, logins=LOGINS)
    for login in ROLES:
        text = text.replace(f"<password of {login}>", "pw")
    return text


def drop_logins() -> None:
    with postgres(resolve("postgres_root")) as session:
        for login in ROLES:
            session.execute(f"DROP ROLE IF EXISTS {login}")


def run(*statements: str) -> None:
    with postgres(replace(resolve("postgres_root"), database=DATABASE)) as session:
        for statement in statements:
            session.execute(statement)


def rows(statement: str) -> list[tuple[Any, ...]]:
    with postgres(replace(resolve("postgres_root"), database=DATABASE)) as session:
        return session.execute(statement).fetchall()


def facts_of(tables: Sequence[Table]) -> SourceFacts:
    return preflight_facts.gather(
        SOURCE,
        tables,
        reader=role(SOURCE, SOURCE.reader),
        capture=role(SOURCE, SOURCE.capture),
        marker=role(SOURCE, SOURCE.marker),
    )


def problems(*tables: Table) -> tuple[Problem, ...]:
    return check(facts_of(tables or (ACCOUNT, AUDIT)))


def test_the_grant_script_is_enough_for_preflight(root: Connection) -> None:
    assert problems() == ()


def test_the_room_that_is_left_to_the_slot_of_the_capture_is_the_servers_own_figure(root: Connection) -> None:
    assert facts_of([ACCOUNT]).wal_left is None
    run(f"SELECT pg_create_logical_replication_slot('{SOURCE.slot}', 'pgoutput')")
    try:
        before = facts_of([ACCOUNT]).wal_left
        run("SELECT pg_logical_emit_message(true, 'seamline test', repeat('x', 33554432))")
        after = facts_of([ACCOUNT]).wal_left
    finally:
        run(f"SELECT pg_drop_replication_slot('{SOURCE.slot}')")
    assert before is not None
    assert after is not None
    assert 0 < after <= before - 33554432


def test_a_survey_shows_what_is_there_beside_what_is_not(root: Connection) -> None:
    run("CREATE TABLE core.place (id int PRIMARY KEY, at point)")
    source = PostgresSource(SOURCE)
    found = source.survey(["acount", "place", "account"])
    assert [table.name for table in found.tables] == ["account"]
    assert [problem.table for problem in found.problems] == ["acount", "place"]
    assert [problem for problem in source.preflight(source.survey(["acount"]).tables) if problem.is_fatal] == []


OF_BEFORE = {
    "no origin": "",
    "no default of a column that was added with one": msgspec.json.encode(
        Origin(1, 1, "d", {"fee": ColumnOrigin(2, "700", has_missing=True, label_versions={})}, *PLACES)
    ).decode(),
    "no row of each label": msgspec.json.encode(Origin(1, 1, "d", {"a": ColumnOrigin(2, "700")}, *PLACES)).decode(),
    "neither its name's row nor its place in the publication": msgspec.json.encode(Origin(1, 1, "d", {})).decode(),
}


@pytest.mark.parametrize("name", OF_BEFORE)
def test_a_table_of_a_plan_of_before_origins_were_kept_as_a_whole_is_reported(name: str, root: Connection) -> None:
    (problem,) = problems(replace(ACCOUNT, origin=OF_BEFORE[name]), AUDIT)
    assert (problem.table, problem.is_fatal) == ("account", False)
    assert "loaded by an earlier version" in problem.what and "`again`" in problem.cure


def test_the_primary_keys_own_index_as_identity_is_the_default(root: Connection) -> None:
    run("ALTER TABLE core.account REPLICA IDENTITY USING INDEX account_pkey")
    assert problems() == ()


@pytest.mark.parametrize(
    ("statements", "said"),
    [
        (["ALTER PUBLICATION seamline_preflight_test DROP TABLE core.audit"], "audit is not in publication"),
        (["ALTER TABLE core.audit REPLICA IDENTITY DEFAULT"], "audit has no primary key and its replica identity"),
        (["ALTER TABLE core.account REPLICA IDENTITY NOTHING"], "identity of table account is NOTHING"),
        (
            [
                "ALTER TABLE core.account ADD other int NOT NULL UNIQUE",
                "ALTER TABLE core.account REPLICA IDENTITY USING INDEX account_other_key",
            ],
            "identity of table account is an index that is not its primary key",
        ),
        (
            [
                "ALTER TABLE core.account DROP CONSTRAINT account_pkey",
                "ALTER TABLE core.account ADD PRIMARY KEY (id) DEFERRABLE",
            ],
            "primary key of table account is deferrable",
        ),
        (["ALTER TABLE core.account ENABLE ROW LEVEL SECURITY"], "only some rows of table account"),
        (
            [
                "ALTER PUBLICATION seamline_preflight_test DROP TABLE core.account",
                "ALTER TABLE core.account SET UNLOGGED",
            ],
            "table account is unlogged",
        ),
        (["CREATE TABLE core.child () INHERITS (core.account)"], "account has tables that inherit from it"),
        (
            [
                "ALTER PUBLICATION seamline_preflight_test DROP TABLE core.audit",
                f"{ADD_AUDIT_AGAIN} WHERE (said <> 'secret')",
            ],
            "only rows of table audit that meet a WHERE",
        ),
        (
            [
                "ALTER PUBLICATION seamline_preflight_test DROP TABLE core.account",
                "ALTER PUBLICATION seamline_preflight_test ADD TABLE core.account (id)",
            ],
            "only some columns of table account",
        ),
        (["ALTER PUBLICATION seamline_preflight_test SET (publish = 'insert, update')"], "publish delete, truncate"),
        (["ALTER PUBLICATION seamline_preflight_test ADD TABLES IN SCHEMA public"], "TABLES IN SCHEMA public"),
        (
            [
                "DROP PUBLICATION seamline_preflight_test",
                "CREATE PUBLICATION seamline_preflight_test FOR ALL TABLES",
            ],
            "is FOR ALL TABLES",
        ),
        (["DROP PUBLICATION seamline_preflight_test"], "there is no publication"),
        (["ALTER TABLE core.seamline_marker ALTER kind TYPE varchar(8)"], "kind is character varying(8)"),
        (["ALTER TABLE core.seamline_marker ALTER at TYPE timestamptz(3)"], "at is timestamp(3) with time zone"),
        (["DROP TABLE core.seamline_marker"], 'no marker table "core"."seamline_marker"'),
        ([f"REVOKE SELECT ON core.account FROM {LOGINS.reader}"], f"`{LOGINS.reader}`) cannot read table account"),
        ([f"REVOKE SELECT ON core.audit FROM {LOGINS.capture}"], f"`{LOGINS.capture}`) cannot read table audit"),
        ([f"REVOKE USAGE ON SCHEMA core FROM {LOGINS.reader}"], f"`{LOGINS.reader}`) lacks USAGE on schema core"),
        ([f"REVOKE USAGE ON SCHEMA core FROM {LOGINS.capture}"], f"`{LOGINS.capture}`) lacks USAGE on schema core"),
        ([f"REVOKE USAGE ON SCHEMA core FROM {LOGINS.marker}"], f"`{LOGINS.marker}`) lacks USAGE on schema core"),
        ([f"ALTER ROLE {LOGINS.capture} NOREPLICATION"], f"`{LOGINS.capture}`) lacks REPLICATION"),
        ([f"REVOKE INSERT ON core.seamline_marker FROM {LOGINS.marker}"], "cannot write a marker: it lacks INSERT"),
    ],
)
def test_what_is_wrong_with_a_source_is_found_and_nothing_else(
    root: Connection, statements: list[str], said: str
) -> None:
    run(*statements)
    (problem,) = problems()
    assert problem.is_fatal
    assert said in problem.what


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        ("PARTITION BY LIST (id)", "later is not in publication"),
        ("WITH (fillfactor = 70)", "later is not in publication"),
    ],
)
def test_a_table_that_a_sync_gets_later_is_judged_as_the_first_ones(root: Connection, declared: str, said: str) -> None:
    run(f"CREATE TABLE core.later (id int PRIMARY KEY) {declared}")
    found = problems(ACCOUNT, Table("later", (), ("id",), origin=LOADED))
    fatal = "\n".join(problem.what for problem in found if problem.is_fatal)
    assert said in fatal
    assert f"`{LOGINS.reader}`) cannot read table later" in fatal
    assert f"`{LOGINS.capture}`) cannot read table later" in fatal
    assert {problem.table for problem in found} == {"later"}


@pytest.mark.parametrize(
    "statements",
    [
        ["DROP PUBLICATION seamline_preflight_test"],
        ["ALTER PUBLICATION seamline_preflight_test DROP TABLE core.account"],
        ["ALTER TABLE core.audit REPLICA IDENTITY NOTHING"],
        [
            "ALTER PUBLICATION seamline_preflight_test DROP TABLE core.audit",
            f"{ADD_AUDIT_AGAIN} WHERE (said <> 'secret')",
        ],
    ],
)
def test_the_statement_of_a_cure_is_the_cure(root: Connection, statements: list[str]) -> None:
    run(*statements)
    (problem,) = problems()
    _, _, cure = problem.cure.partition(" run ")
    run(*(cure or problem.cure).split("; "))
    assert problems() == ()


def test_the_statement_of_a_publication_is_a_list_of_tables(root: Connection) -> None:
    run("DROP PUBLICATION seamline_preflight_test", publication_statement(SOURCE, ["account"]))
    listed = rows("SELECT tablename FROM pg_publication_tables WHERE pubname = 'seamline_preflight_test' ORDER BY 1")
    assert listed == [("account",), ("seamline_marker",)]


def test_row_security_is_no_matter_to_a_reader_that_passes_by_it(root: Connection) -> None:
    run("ALTER TABLE core.account ENABLE ROW LEVEL SECURITY", f"ALTER ROLE {LOGINS.reader} BYPASSRLS")
    assert problems() == ()


def test_a_marker_table_under_row_security_is_reported(root: Connection) -> None:
    run("ALTER TABLE core.seamline_marker ENABLE ROW LEVEL SECURITY")
    assert any("may not write a marker" in problem.what for problem in problems())


def test_without_the_right_to_delete_only_the_growth_is_reported(root: Connection) -> None:
    run(f"REVOKE DELETE ON core.seamline_marker FROM {LOGINS.marker}")
    (problem,) = problems()
    assert not problem.is_fatal
    assert "cannot delete old markers" in problem.what


def test_the_sources_own_slot_does_not_count_against_it(root: Connection) -> None:
    before = facts_of([ACCOUNT]).slots_used
    slots = (SOURCE.slot, f"{SOURCE.slot}_other")
    try:
        for slot, counted in zip(slots, (before, before + 1), strict=True):
            run(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
            assert facts_of([ACCOUNT]).slots_used == counted
    finally:
        run(f"SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name LIKE '{slots[0]}%'")


def test_a_writer_that_does_not_end_is_reported_where_the_server_shows_its_age(
    root: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight_facts, "_RUNNING_S", 0)
    with postgres(role(SOURCE, SOURCE.marker)) as writer, postgres(role(SOURCE, SOURCE.marker)) as idle:
        idle.execute("BEGIN")
        writer.execute("BEGIN")
        writer.execute("SELECT pg_current_xact_id()")
        said, unsaid = (f"pid {one.info.backend_pid} of {LOGINS.marker}" for one in (writer, idle))
        assert said not in facts_of([ACCOUNT]).long_running
        run(f"GRANT pg_read_all_stats TO {LOGINS.reader}")
        (problem,) = problems()
    assert not problem.is_fatal
    assert said in problem.what
    assert unsaid not in problem.what


def test_a_login_without_rights_is_refused_with_the_way_to_the_grants(root: Connection) -> None:
    run(f"REVOKE INSERT ON core.seamline_marker FROM {LOGINS.marker}")
    with pytest.raises(Refused, match="permission denied for table seamline_marker") as raised:
        commit_marker(role(SOURCE, SOURCE.marker), *PLACE, Marker(id="m", kind="heartbeat"))
    assert "grants.md" in raised.value.hint
