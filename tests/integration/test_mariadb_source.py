"""Catalogue, preflight, markers and positions of a real MariaDB, with the roles' own logins."""

from collections.abc import Iterator
from contextlib import closing

import pytest

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.databases.mysql.client import query
from seamline.domain.catalogue import Kind
from seamline.domain.errors import ConfigError, Refused, SchemaConflict
from seamline.kinds.logins import Logins
from seamline.plan.model import SourcePlan
from seamline.ports import Marker
from seamline.sources.mariadb.grants import grant_script
from seamline.sources.mariadb.source import MariaDbSource
from seamline.stack.mariadb import ROLES, provision
from tests.conftest import RunningStack
from tests.integration.databases import mariadb, mariadb_database

DATABASE = "source_test"
LOGINS = Logins(capture="source_test_capture", reader="source_test_reader", marker="source_test_marker")
SOURCE = SourcePlan(
    name="source_test",
    kind="mariadb",
    database=DATABASE,
    reader="source_test_reader",
    capture="source_test_capture",
    marker="source_test_marker",
    log_topic="seamline.source_test.log",
    connector="seamline-source_test",
)
EVERY_TYPE = """CREATE TABLE every_type (
  second_part INT NOT NULL, first_part VARCHAR(20) NOT NULL,
  tiny TINYINT(1), tiny_u TINYINT UNSIGNED, small SMALLINT, medium MEDIUMINT UNSIGNED, whole INT UNSIGNED,
  big BIGINT, big_u BIGINT UNSIGNED, money DECIMAL(20,4), real4 FLOAT, real8 DOUBLE, flag BIT(1), bits BIT(64),
  code CHAR(3), memo TEXT, document JSON, raw BINARY(4), blob_ LONGBLOB, day DATE, at DATETIME(6), moment TIMESTAMP(3),
  span TIME(6), year_ YEAR, state ENUM('a','b,c'), tags SET('x','z'), id UUID,
  checked LONGTEXT CHECK (length(checked) > 1), doubled INT AS (small * 2) VIRTUAL,
  PRIMARY KEY (first_part, second_part))"""


@pytest.fixture
def source(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[MariaDbSource]:
    """A source whose logins have exactly what the grant script gives."""
    with mariadb_database(DATABASE) as root, closing(mariadb(root)) as session:
        for login in (LOGINS.capture, LOGINS.reader, LOGINS.marker):
            query(session, f"DROP USER IF EXISTS {login}")
            monkeypatch.setenv(f"SEAMLINE_CONNECTION_{login.upper()}", f"mysql://{login}:pw@{root.host}:{root.port}/x")
        query(session, "CREATE TABLE account (id INT PRIMARY KEY)")
        run_script(root, "account")
        try:
            yield MariaDbSource(SOURCE)
        finally:
            for login in (LOGINS.capture, LOGINS.reader, LOGINS.marker):
                query(session, f"DROP USER IF EXISTS {login}")


def run_script(root: Connection, *tables: str) -> None:
    script = grant_script(DATABASE, tables, logins=LOGINS)
    for login in (LOGINS.capture, LOGINS.reader, LOGINS.marker):
        script = script.replace(f"<password of {login}>", "pw")
    with closing(mariadb(root)) as session:
        for statement in script.split(";\n"):
            if statement.strip():
                query(session, statement)


def as_root(*statements: str) -> None:
    with closing(mariadb(resolve("core_bank_root"))) as session:
        query(session, f"USE {DATABASE}")
        for statement in statements:
            query(session, statement)


def test_every_type_is_read_from_the_catalogue_as_its_kind(source: MariaDbSource) -> None:
    as_root(EVERY_TYPE, f"GRANT SELECT ON {DATABASE}.every_type TO {LOGINS.reader}")
    (table,) = source.catalogue(["every_type"])
    assert table.key == ("first_part", "second_part")
    kinds = {column.name: (column.kind, column.length or column.precision) for column in table.columns}
    assert kinds == {
        "second_part": (Kind.INTEGER, 32),
        "first_part": (Kind.STRING, 20),
        "tiny": (Kind.INTEGER, 8),
        "tiny_u": (Kind.INTEGER, 16),
        "small": (Kind.INTEGER, 16),
        "medium": (Kind.INTEGER, 32),
        "whole": (Kind.INTEGER, 64),
        "big": (Kind.INTEGER, 64),
        "big_u": (Kind.UNSIGNED, 64),
        "money": (Kind.DECIMAL, 20),
        "real4": (Kind.FLOAT, 0),
        "real8": (Kind.DOUBLE, 0),
        "flag": (Kind.BITS, 1),
        "bits": (Kind.BITS, 64),
        "code": (Kind.CHAR, 3),
        "memo": (Kind.STRING, 0),
        "document": (Kind.JSON, 0),
        "raw": (Kind.BINARY, 4),
        "blob_": (Kind.BYTES, 0),
        "day": (Kind.DATE, 0),
        "at": (Kind.DATETIME, 6),
        "moment": (Kind.INSTANT, 3),
        "span": (Kind.TIME, 6),
        "year_": (Kind.YEAR, 0),
        "state": (Kind.ENUM, 0),
        "tags": (Kind.SET, 0),
        "id": (Kind.UUID, 0),
        "checked": (Kind.STRING, 0),
        "doubled": (Kind.INTEGER, 32),
    }
    assert table.column("money").scale == 4
    assert not table.column("first_part").nullable


def test_unknown_tables_views_and_unsupported_types_are_reported_together(source: MariaDbSource) -> None:
    as_root("CREATE VIEW open_account AS SELECT * FROM account", f"GRANT SELECT ON {DATABASE}.* TO {LOGINS.reader}")
    with pytest.raises(SchemaConflict) as raised:
        source.catalogue(["acount", "open_account"])
    assert "did you mean `account`" in str(raised.value)
    assert "`open_account` is a view" in str(raised.value)
    as_root("CREATE TABLE place (id INT PRIMARY KEY, at POINT)")
    with pytest.raises(SchemaConflict, match="`place`.`at` point: geometry"):
        source.catalogue(["account", "place"])


def test_a_virtual_column_that_is_no_function_of_its_row_is_refused_and_a_stored_one_is_not(
    source: MariaDbSource,
) -> None:
    """Its value changes by night, or with the session that asks, and the log has no record of it."""
    as_root(
        "CREATE TABLE person (id INT PRIMARY KEY, born DATE, ts TIMESTAMP NULL, cancelled TIMESTAMP NULL, at TIME,"
        " age INT AS (TIMESTAMPDIFF(YEAR, born, CURDATE())) VIRTUAL, day DATE AS (CAST(ts AS DATE)) VIRTUAL INVISIBLE,"
        " moment TIMESTAMP AS (born) VIRTUAL, due DATETIME AS (at) VIRTUAL, who VARCHAR(99) AS (USER()),"
        " is_live INT AS (cancelled IS NULL) VIRTUAL, whose VARCHAR(20) AS (CONCAT('it''s \\\\ ', YEAR(born))) VIRTUAL,"
        " pay DATE AS (born + INTERVAL 30 DAY) VIRTUAL, twice INT AS (id * 2) STORED, later DATETIME AS (at) STORED)",
        f"GRANT SELECT ON {DATABASE}.person TO {LOGINS.reader}",
    )
    found = source.survey(["account", "person"])
    assert [table.name for table in found.tables] == ["account"]
    said = [problem.what.partition("`person`.")[2] for problem in found.problems]
    assert [one.split("`")[1] for one in said] == ["age", "day", "moment", "due", "who"]
    assert "`curdate` in its expression" in said[0]
    assert "reads `ts`, a TIMESTAMP" in said[1]
    assert {problem.table for problem in found.problems} == {"person"}
    assert all("of a VIRTUAL one, its expression" in problem.cure for problem in found.problems)


def test_a_system_versioned_table_and_a_sequence_are_refused_by_the_server_s_own_word(source: MariaDbSource) -> None:
    as_root(
        "CREATE TABLE price (id INT PRIMARY KEY, amount INT) WITH SYSTEM VERSIONING",
        "CREATE TABLE dated (id INT PRIMARY KEY, since TIMESTAMP(6) GENERATED ALWAYS AS ROW START,"
        " until TIMESTAMP(6) GENERATED ALWAYS AS ROW END, PERIOD FOR SYSTEM_TIME(since, until)) WITH SYSTEM VERSIONING",
        "CREATE SEQUENCE numbers",
        f"GRANT SELECT ON {DATABASE}.* TO {LOGINS.reader}",
    )
    with pytest.raises(SchemaConflict) as raised:
        source.catalogue(["account", "price", "dated", "numbers"])
    assert "`price` is system-versioned" in str(raised.value)
    assert "`dated` is system-versioned" in str(raised.value)
    assert "`numbers` is a sequence" in str(raised.value)
    found = source.survey(["account", "price", "dated", "numbers"])
    assert [table.name for table in found.tables] == ["account"]
    assert [problem.table for problem in found.problems] == ["price", "dated", "numbers"]


def test_a_survey_shows_what_is_there_beside_what_is_not(source: MariaDbSource) -> None:
    as_root("CREATE TABLE place (id INT PRIMARY KEY, at POINT)", f"GRANT SELECT ON {DATABASE}.* TO {LOGINS.reader}")
    found = source.survey(["acount", "place", "account"])
    assert [table.name for table in found.tables] == ["account"]
    assert [problem.table for problem in found.problems] == ["acount", "place"]
    assert [problem for problem in source.preflight(source.survey(["acount"]).tables) if problem.is_fatal] == []


def test_the_grant_script_is_enough_for_preflight(source: MariaDbSource) -> None:
    assert [problem for problem in source.preflight(source.catalogue(["account"])) if problem.is_fatal] == []


def test_what_is_wrong_with_a_source_is_reported_all_at_once(source: MariaDbSource) -> None:
    as_root(
        "CREATE TABLE loose (id INT) ENGINE=MyISAM",
        "CREATE TABLE child (id INT PRIMARY KEY, parent INT, FOREIGN KEY fk (parent) REFERENCES account (id)"
        " ON DELETE CASCADE)",
        "ALTER TABLE seamline_marker MODIFY kind VARCHAR(8) NOT NULL",
        f"GRANT SELECT ON {DATABASE}.* TO {LOGINS.reader}",
        f"REVOKE INSERT ON {DATABASE}.seamline_marker FROM {LOGINS.marker}",
        f"REVOKE BINLOG MONITOR ON *.* FROM {LOGINS.capture}",
        f"GRANT SELECT ON {DATABASE}.account TO {LOGINS.capture}",
        rf"REVOKE SELECT ON `{DATABASE.replace('_', chr(92) + '_')}`.* FROM {LOGINS.capture}",
        f"GRANT SELECT ON {DATABASE}.seamline_marker TO {LOGINS.marker}",
    )
    problems = source.preflight(source.catalogue(["account", "loose", "child"]))
    said = "\n".join(problem.what for problem in problems if problem.is_fatal)
    for expected in (
        "table loose uses engine MyISAM",
        "of table child acts by itself (ON DELETE CASCADE",
        "kind is varchar(8), wanted varchar(16)",
        "cannot write a marker: INSERT command denied",
        "lacks BINLOG MONITOR",
        f"login `{LOGINS.capture}` (connection `{LOGINS.capture}`) cannot read table loose",
        f"lacks SELECT on the whole database {DATABASE}",
    ):
        assert expected in said


def test_the_settings_of_the_server_do_not_change_how_it_is_read(source: MariaDbSource) -> None:
    """Under them SHOW CREATE quotes otherwise or not at all, and a CHAR has the spaces that the log does not hold."""
    as_root(
        "CREATE TABLE child (id INT PRIMARY KEY, code CHAR(5), parent INT, FOREIGN KEY fk (parent)"
        " REFERENCES account (id) ON DELETE CASCADE)",
        "INSERT INTO child (id, code) VALUES (1, 'ab')",
        f"GRANT SELECT ON {DATABASE}.* TO {LOGINS.reader}",
    )
    with closing(mariadb(resolve("core_bank_root"))) as session:
        ((mode,),) = query(session, "SELECT @@GLOBAL.sql_mode")
        query(session, "SET GLOBAL sql_mode = 'ORACLE,PAD_CHAR_TO_FULL_LENGTH', GLOBAL sql_quote_show_create = 0")
        try:
            table, child = source.catalogue(["account", "child"])
            problems = source.preflight((table, child))
            (view,) = source.open_views(1)
            with closing(view):
                rows = view.rows("child", ["1"])
        finally:
            query(session, "SET GLOBAL sql_mode = %s, GLOBAL sql_quote_show_create = 1", (mode,))
    assert any("of table child acts by itself (ON DELETE CASCADE" in problem.what for problem in problems)
    assert dict(rows["1"]) == {"id": "1", "code": "ab", "parent": None}


def test_a_prepared_xa_transaction_is_refused(source: MariaDbSource) -> None:
    with closing(mariadb(resolve("core_bank_root"))) as session:
        query(session, "XA START 'seamline-test'")
        query(session, f"INSERT INTO {DATABASE}.account VALUES (1)")
        query(session, "XA END 'seamline-test'")
        query(session, "XA PREPARE 'seamline-test'")
        problems = source.preflight(source.catalogue(["account"]))
        query(session, "XA ROLLBACK 'seamline-test'")
    assert any("prepared XA" in problem.what for problem in problems)


@pytest.mark.parametrize("setting", ["binlog_row_image = 'MINIMAL'", "binlog_row_metadata = 'NO_LOG'"])
def test_a_server_that_cannot_be_captured_is_refused_with_its_setting(source: MariaDbSource, setting: str) -> None:
    name = setting.partition(" ")[0]
    with closing(mariadb(resolve("core_bank_root"))) as session:
        query(session, f"SET GLOBAL {setting}")
        try:
            problems = source.preflight(source.catalogue(["account"]))
        finally:
            query(session, f"SET GLOBAL {name} = 'FULL'")
    said = [problem for problem in problems if problem.is_fatal and f"{name} is" in problem.what]
    assert ["wanted FULL" in one.what and f"set {name} = FULL" in one.cure for one in said] == [True]


def test_the_probe_of_the_marker_role_leaves_no_row_and_no_binlog_event(source: MariaDbSource) -> None:
    before = source.seed_position()
    source.preflight(source.catalogue(["account"]))
    assert source.seed_position().gtid == before.gtid or not marker_rows()


def marker_rows() -> tuple[tuple[object, ...], ...]:
    with closing(mariadb(resolve("core_bank_root"))) as session:
        return query(session, f"SELECT id, kind, payload FROM {DATABASE}.seamline_marker")


def test_a_later_commit_lies_after_the_seed_position(source: MariaDbSource) -> None:
    before = source.seed_position()
    source.commit_marker(Marker(id="m", kind="heartbeat"))
    after = source.seed_position()
    assert after.covers(before)
    assert not before.covers(after)
    assert (after.file, after.offset) > (before.file, before.offset)


def test_a_login_without_rights_is_refused_with_the_way_to_the_grants(source: MariaDbSource) -> None:
    as_root(f"REVOKE INSERT ON {DATABASE}.seamline_marker FROM {LOGINS.marker}",
            f"GRANT SELECT ON {DATABASE}.seamline_marker TO {LOGINS.marker}")  # fmt: skip
    with pytest.raises(Refused, match="INSERT command denied") as raised:
        source.commit_marker(Marker(id="m", kind="heartbeat"))
    assert "grants.md" in raised.value.hint


def test_a_database_that_does_not_exist_is_a_wrong_declaration(stack: RunningStack) -> None:
    missing = SourcePlan(**{name: getattr(SOURCE, name) for name in ("name", "kind", "log_topic", "connector")},
                         database="nowhere", reader="core_bank_root", capture="x", marker="x")  # fmt: skip
    with pytest.raises(ConfigError, match="has no database `nowhere`"):
        MariaDbSource(missing).catalogue(["account"])


def test_the_stack_puts_no_password_into_the_binlog_which_the_capture_may_read(stack: RunningStack) -> None:
    secrets = [resolve(name).password for name in ("core_bank_root", "bank_app", *ROLES)]
    with closing(mariadb(resolve("core_bank_capture"))) as session:
        ((file, offset, *_),) = query(session, "SHOW MASTER STATUS")
        provision(settings.load())
        logged = " ".join(str(event[-1]) for event in query(session, f"SHOW BINLOG EVENTS IN '{file}' FROM {offset}"))
    assert "ALTER USER" in logged and "CREATE USER" in logged
    assert [secret for secret in secrets if secret in logged] == []
