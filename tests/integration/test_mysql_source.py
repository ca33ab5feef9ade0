"""Preflight, markers, grants and logins of a real MySQL, with the roles' own logins."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql.client import query
from seamline.databases.mysql.grants import statements_of
from seamline.domain.errors import ConfigError, Refused
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan
from seamline.ports import Marker
from seamline.sources.mysql.grants import script_of
from seamline.sources.mysql.source import MySqlSource
from tests.mysql_server import mysql, mysql_database

DATABASE = "mysql_source_test"
LOGINS = Logins(capture="my_source_capture", reader="my_source_reader", marker="my_source_marker")
SOURCE = SourcePlan(
    name="source_test",
    kind="mysql",
    database=DATABASE,
    reader="my_source_reader",
    capture="my_source_capture",
    marker="my_source_marker",
    log_topic="seamline.source_test.log",
    connector="seamline-source_test",
)
ALL_LOGINS = (LOGINS.capture, LOGINS.reader, LOGINS.marker)


@pytest.fixture
def root(mysql_root: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    """A database with one table; no login has a right yet."""
    with mysql_database(mysql_root, DATABASE) as connection:
        for login in ALL_LOGINS:
            as_root(connection, f"DROP USER IF EXISTS {login}")
            name = f"SEAMLINE_CONNECTION_{login.upper()}"
            monkeypatch.setenv(name, f"mysql://{login}:pw@{connection.host}:{connection.port}/x")
        as_root(connection, "CREATE TABLE account (id INT PRIMARY KEY, v INT)")
        yield connection
        for login in ALL_LOGINS:
            as_root(connection, f"DROP USER IF EXISTS {login}")


@pytest.fixture
def source(root: Connection) -> MySqlSource:
    """A source whose logins have exactly what the grant script gives."""
    return granted(root, SOURCE)


def granted(root: Connection, source: SourcePlan) -> MySqlSource:
    script = script_of(source, ["account"], logins=LOGINS)
    for login in ALL_LOGINS:
        script = script.replace(f"<password of {login}>", "pw")
    as_root(root, *statements_of(script))
    return MySqlSource(source)


def as_root(root: Connection, *statements: str) -> None:
    with closing(mysql(root)) as session:
        for statement in statements:
            query(session, statement)


@pytest.mark.parametrize("lock", ["none", "brief"])
def test_the_grant_script_is_enough_for_preflight_and_views(root: Connection, lock: str) -> None:
    source = granted(root, replace(SOURCE, snapshot_lock=lock))
    assert source.preflight(source.catalogue(["account"])) == ()
    views = source.open_views(2)
    assert len({view.position for view in views}) == 1
    for view in views:
        view.close()


def test_what_is_wrong_with_a_source_is_reported_all_at_once(source: MySqlSource, root: Connection) -> None:
    as_root(
        root,
        "CREATE TABLE loose (id INT PRIMARY KEY) ENGINE=MyISAM",
        "ALTER TABLE seamline_marker MODIFY kind VARCHAR(8) NOT NULL",
        f"GRANT SELECT ON {DATABASE}.* TO {LOGINS.reader}",
        f"REVOKE INSERT ON {DATABASE}.seamline_marker FROM {LOGINS.marker}",
        f"REVOKE REPLICATION CLIENT, XA_RECOVER_ADMIN ON *.* FROM {LOGINS.capture}",
        f"REVOKE BACKUP_ADMIN ON *.* FROM {LOGINS.reader}",
        rf"REVOKE SELECT ON `{DATABASE.replace('_', chr(92) + '_')}`.* FROM {LOGINS.capture}",
        f"GRANT SELECT ON {DATABASE}.account TO {LOGINS.capture}",
    )
    problems = source.preflight(source.catalogue(["account", "loose"]))
    said = "\n".join(problem.what for problem in problems if problem.is_fatal)
    for expected in (
        "table loose uses engine MyISAM",
        "kind is varchar(8), wanted varchar(16)",
        "cannot write a marker: INSERT command denied",
        "lacks REPLICATION CLIENT",
        "lacks XA_RECOVER_ADMIN",
        "lacks BACKUP_ADMIN",
        f"login `{LOGINS.capture}` (connection `{LOGINS.capture}`) cannot read table loose",
        f"lacks SELECT on the whole database {DATABASE}",
    ):
        assert expected in said


def test_rights_that_come_by_a_role_count_where_it_is_active(source: MySqlSource, root: Connection) -> None:
    as_root(
        root,
        "CREATE ROLE seamline_reads",
        "GRANT BACKUP_ADMIN ON *.* TO seamline_reads",
        f"REVOKE BACKUP_ADMIN ON *.* FROM {LOGINS.reader}",
        f"GRANT seamline_reads TO {LOGINS.reader}",
    )
    try:
        tables = source.catalogue(["account"])
        assert any("lacks BACKUP_ADMIN" in problem.what for problem in source.preflight(tables))
        as_root(root, f"ALTER USER {LOGINS.reader} DEFAULT ROLE seamline_reads")
        assert source.preflight(tables) == ()
    finally:
        as_root(root, "DROP ROLE seamline_reads")


def test_a_prepared_xa_transaction_is_refused(source: MySqlSource, root: Connection) -> None:
    with closing(mysql(root)) as session:
        for statement in ("START 'seamline-test'", "END 'seamline-test'", "PREPARE 'seamline-test'"):
            query(session, f"XA {statement}")
            if statement.startswith("START"):
                query(session, "INSERT INTO account VALUES (1, 1)")
        problems = source.preflight(source.catalogue(["account"]))
        query(session, "XA ROLLBACK 'seamline-test'")
    assert any("1 prepared XA" in problem.what for problem in problems)


@pytest.mark.parametrize(
    ("setting", "as_it_was"),
    [
        ("binlog_row_image = 'MINIMAL'", "FULL"),
        ("binlog_row_metadata = 'MINIMAL'", "FULL"),
        ("binlog_row_value_options = 'PARTIAL_JSON'", ""),
        ("binlog_order_commits = 'OFF'", "ON"),
        ("sync_binlog = 1000", "1"),
    ],
)
def test_a_server_that_cannot_be_captured_is_refused_with_its_setting(
    source: MySqlSource, root: Connection, setting: str, as_it_was: str
) -> None:
    name = setting.partition(" ")[0]
    as_root(root, f"SET GLOBAL {setting}")
    try:
        problems = source.preflight(source.catalogue(["account"]))
    finally:
        as_root(root, f"SET GLOBAL {name} = {as_it_was if as_it_was.isdigit() else repr(as_it_was)}")
    said = [problem for problem in problems if problem.is_fatal and problem.what.startswith(f"{name} is")]
    assert [one.cure.startswith(f"set {name} = ") for one in said] == [True]


def test_what_a_foreign_key_does_by_itself_is_in_the_log(root: Connection) -> None:
    """Since 9.6; so preflight lets such keys pass, and asks for the setting that says so."""
    as_root(
        root,
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT, FOREIGN KEY fk (parent) REFERENCES account (id)"
        " ON DELETE CASCADE)",
        "INSERT INTO account VALUES (1, 1)",
        "INSERT INTO child VALUES (10, 1), (11, 1)",
        "FLUSH BINARY LOGS",
        "DELETE FROM account WHERE id = 1",
    )
    with closing(mysql(root)) as session:
        ((file, *_),) = query(session, "SHOW BINARY LOG STATUS")
        events = query(session, f"SHOW BINLOG EVENTS IN '{file}'")
    tables = {str(event[-1]).split(" ")[1]: str(event[-1]) for event in events if event[2] == "Table_map"}
    deleted = [str(event[-1]).split(" ")[1] for event in events if event[2] == "Delete_rows"]
    assert [tables[one].partition("(")[2].rstrip(")") for one in deleted] == [
        f"{DATABASE}.child",
        f"{DATABASE}.account",
    ]


def marker_rows(root: Connection) -> tuple[tuple[object, ...], ...]:
    with closing(mysql(root)) as session:
        return query(session, f"SELECT id, kind, payload FROM {DATABASE}.seamline_marker")


def test_a_later_commit_lies_after_the_seed_position_and_the_probe_of_preflight_is_none(source: MySqlSource) -> None:
    before = source.seed_position()
    source.preflight(source.catalogue(["account"]))
    assert source.seed_position() == before
    source.commit_marker(Marker(id="m", kind="heartbeat"))
    after = source.seed_position()
    assert after.covers(before)
    assert not before.covers(after)
    assert after.gtids.minus(before.gtids).count == 1
    assert (after.file, after.offset) > (before.file, before.offset)


def test_a_login_without_rights_is_refused_with_the_way_to_the_grants(source: MySqlSource, root: Connection) -> None:
    as_root(root, f"REVOKE INSERT ON {DATABASE}.seamline_marker FROM {LOGINS.marker}")
    with pytest.raises(Refused, match="INSERT command denied") as raised:
        source.commit_marker(Marker(id="m", kind="heartbeat"))
    assert "grants.md" in raised.value.hint


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("ALTER USER {} IDENTIFIED BY 'another'", "Access denied"),
        ("ALTER USER {} ACCOUNT LOCK", "is locked"),
        ("ALTER USER {} PASSWORD EXPIRE", "password"),
        ("DROP USER {}", "Access denied"),
    ],
)
def test_a_login_that_is_not_let_in_is_a_wrong_connection(
    source: MySqlSource, root: Connection, statement: str, said: str
) -> None:
    as_root(root, statement.format(LOGINS.reader))
    with pytest.raises(ConfigError, match=said):
        source.catalogue(["account"])


@pytest.mark.parametrize("mode", ["disable", "require"])
def test_a_password_is_checked_with_and_without_encryption(
    source: MySqlSource, root: Connection, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """`caching_sha2_password`, which wants the server's key where there is no TLS; the server has forgotten it."""
    as_root(root, f"ALTER USER {LOGINS.reader} REQUIRE {'SSL' if mode == 'require' else 'NONE'}", "FLUSH PRIVILEGES")
    entry = {"conn_type": "mysql", "host": root.host, "port": root.port, "login": LOGINS.reader, "password": "pw"}
    name = f"SEAMLINE_CONNECTION_{LOGINS.reader.upper()}"
    monkeypatch.setenv(name, json.dumps({**entry, "extra": {"sslmode": mode}}))
    assert [table.name for table in source.catalogue(["account"])] == ["account"]
    if mode == "require":
        monkeypatch.setenv(name, json.dumps({**entry, "extra": {"sslmode": "disable"}}))
        with pytest.raises(ConfigError, match="refused login"):
            source.catalogue(["account"])


def test_a_database_that_does_not_exist_is_a_wrong_declaration(source: MySqlSource, root: Connection) -> None:
    as_root(root, f"GRANT SELECT ON *.* TO {LOGINS.reader}")
    with pytest.raises(ConfigError, match="has no database `nowhere`"):
        MySqlSource(replace(SOURCE, database="nowhere")).catalogue(["account"])
