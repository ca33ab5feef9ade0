"""`seamline certify` on real servers: every type of each kind of source, planted faults, and nothing left behind."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from seamline.adapters.connect import connector_config
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.debezium.row_images import RowImages
from seamline.cli.main import main
from seamline.databases.mysql import probes as binlog_probes
from seamline.databases.mysql import row_decoder as mysql_rows
from seamline.domain.catalogue import Column, Kind
from seamline.domain.errors import SchemaConflict
from seamline.domain.probe import Probe, ProbePath
from seamline.sources.mariadb import catalogue
from seamline.sources.mariadb.catalogue import CHARACTER_SETS
from seamline.sources.postgres import probes as postgres_probes
from seamline.sources.postgres import row_decoder as postgres_rows
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_mysql import captured_mysql
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.integration.databases import mariadb, mariadb_destination, mariadb_writer_of, postgres, postgres_database
from tests.integration.kinds import CASES, INEXACT_CASES
from tests.integration.known import destination_known_by_id, known_by_id
from tests.integration.mysql_types import NAMES
from tests.integration.postgres_kinds import CASES as TYPE_CASES
from tests.integration.postgres_kinds import TYPES, TypeCase, create_table
from tests.integration.streamed import streamed
from tests.once_more import ONCE_MORE
from tests.wrong_values import cut_off, later

SOURCES = {
    "mariadb": """\
source: {name}
kind: mariadb
connection: core_bank
capture_connection: core_bank_capture
marker_connection: core_bank_marker
database: {name}
""",
    "mysql": """\
source: {name}
kind: mysql
connection: {name}_reader
capture_connection: core_bank_capture
marker_connection: {name}_marker
database: {name}
""",
    "postgres": """\
source: {name}
kind: postgres
connection: {name}_reader
capture_connection: core_bank_capture
marker_connection: {name}_marker
database: {name}
""",
}
OWNERS = {"mariadb": "core_bank_root", "mysql": "parity_root", "postgres": "postgres_root"}
SYNC = "sync: {name}_sync\nsource: {name}\ndestinations: [{destinations}]\ntables: [{tables}]\n"
DESTINATION = (
    "destination: certified\nkind: postgres\nconnection: certified\nwriter_connection: certified_writer\nschema: live\n"
)
INTO_MARIADB = DESTINATION.replace("postgres", "mariadb").replace("schema: live", "database: parity_copy")
MARIADB, MYSQL, POSTGRES = "parity_test", "parity_mysql", "parity_pg"
IN_THE_WAY = (
    "CREATE TABLE parent (id INT PRIMARY KEY)",
    "CREATE TABLE strict (code VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german1_ci NOT NULL UNIQUE,"
    " parent_id INT NOT NULL, amount DECIMAL(12,2) NOT NULL DEFAULT 7 CHECK (amount > 0), doc JSON NOT NULL,"
    " at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, seen TIMESTAMP(3) NOT NULL,"
    " n MEDIUMINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, twice BIGINT AS (parent_id * 2) STORED,"
    " FOREIGN KEY (parent_id) REFERENCES parent (id))",
    "CREATE TRIGGER strict_before BEFORE INSERT ON strict FOR EACH ROW SIGNAL SQLSTATE '45000'",
    "CREATE TABLE keyless (a INT, k VARCHAR(200))",
)

# Every kind with a default of its own, but UUID, with which the connector reads no default of the table; and what is no
# value or takes no NULL.
MARIADB_GIVEN = (
    "CREATE SEQUENCE numbers",
    "CREATE TABLE given (id INT AUTO_INCREMENT PRIMARY KEY,"
    + "".join(f" `{case.column.name}` {case.mariadb_type} DEFAULT ({case.edges[0].mariadb})," for case in CASES[:-1])
    + """ ident UUID, f32 FLOAT DEFAULT 1.5, f64 DOUBLE DEFAULT 0.1,
    quotes VARCHAR(40) DEFAULT 'it''s 5%, \\\\ "x" nextval(1)',
    now TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, made UUID DEFAULT uuid(),
    drawn INT DEFAULT NEXT VALUE FOR numbers, added INT DEFAULT (i32 + 1), strict INT NOT NULL DEFAULT 5, plain INT)""",
)
MYSQL_GIVEN = (
    """CREATE TABLE given (id INT AUTO_INCREMENT PRIMARY KEY, small TINYINT DEFAULT -1, large BIGINT UNSIGNED
    DEFAULT 18446744073709551615, amount DECIMAL(20,4) DEFAULT -0.5, f32 FLOAT DEFAULT 1.5, f64 DOUBLE DEFAULT 0.1,
    flags BIT(9) DEFAULT b'100000001', raw BINARY(3) DEFAULT 'ab', bytes VARBINARY(9) DEFAULT x'ff27',
    word CHAR(5) DEFAULT 'a', quotes VARCHAR(40) DEFAULT 'it''s 5%, \\\\ "x" nextval(1)', day DATE DEFAULT '0001-01-01',
    moment DATETIME(6) DEFAULT '2026-11-20 10:20:30.123456', span TIME(3) DEFAULT '-838:59:59', y YEAR DEFAULT 1970,
    now TIMESTAMP(6) NULL DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
    mood ENUM('ok','it''s') DEFAULT 'it''s', marks SET('x','y') DEFAULT 'x,y', doc JSON DEFAULT (JSON_ARRAY('a''b')),
    memo TEXT DEFAULT ('it''s'), made VARCHAR(36) DEFAULT (uuid()), added INT DEFAULT (small + 1),
    strict INT NOT NULL DEFAULT 5, plain INT)""",
)


def default_of(case: TypeCase) -> str:
    """None of an interval: the connector says 0 for it, and a planted connector would end there."""
    return "" if case.type == "interval" else f" DEFAULT {case.edges[0]}"


POSTGRES_GIVEN = (
    "CREATE FUNCTION seven() RETURNS int LANGUAGE sql AS 'SELECT 7'",
    "CREATE TABLE given (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,"
    + "".join(f" {case.name} {case.type}{default_of(case)}," for case in TYPE_CASES)
    + """ quotes text DEFAULT 'it''s 5%, \\ "x" nextval(1)', now timestamptz DEFAULT now(), called int DEFAULT seven(),
    serial serial, drawn bigint DEFAULT nextval('given_serial_seq'), strict int NOT NULL DEFAULT 5, plain int)""",
)
DRAWN, STRICT = "not tried: it draws from a sequence", "the column takes no NULL"
# The tables, the columns with defaults against which no NULL is sent, and those of whose defaults no connector sees.
GIVEN: dict[str, tuple[Sequence[str], dict[str, str], set[str]]] = {
    "mariadb": (
        MARIADB_GIVEN,
        {"drawn": DRAWN, "added": "not tried: Unknown column 'i32' in 'DEFAULT'", "strict": STRICT},
        {"bits64", "made", "now"},
    ),
    "mysql": (
        MYSQL_GIVEN,
        {"added": "not tried: Unknown column 'small' in 'default value expression'", "strict": STRICT},
        {"doc", "memo", "made", "now"},
    ),
    "postgres": (
        POSTGRES_GIVEN,
        {"serial": DRAWN, "drawn": DRAWN, "strict": STRICT},
        {"amount", "booked", "grace", "raw"}
        | {"host", "network", "card", "card8", "gateway", "words", "mask", "home", "old_home", "vacation"}
        | {case.name for case in TYPE_CASES if case.name.startswith(("r_", "m_"))},
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of the declarations and of the certificate."""
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    return tmp_path


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    columns = ", ".join(f"`{case.column.name}` {case.mariadb_type}" for case in (*CASES, *INEXACT_CASES))
    with captured(MARIADB) as one:
        one.execute(f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns})")
        yield one


@pytest.fixture
def ledger(stack: RunningStack, monkeypatch: pytest.MonkeyPatch) -> Iterator[PostgresCaptured]:
    """Connect knows the login of the capture by the id of the bank's connection."""
    create = (*TYPES, create_table("kinds", key="id int PRIMARY KEY, "))
    with captured_postgres(POSTGRES, create=create, tables=("kinds",)) as one:
        secret = resolve(one.source_plan.capture)
        address = f"postgres://{secret.login}:{secret.password}@{secret.host}:{secret.port}/{POSTGRES}"
        monkeypatch.setenv("SEAMLINE_CONNECTION_CORE_BANK_CAPTURE", address)
        yield one


@pytest.fixture
def shop(mysql_root: Connection, monkeypatch: pytest.MonkeyPatch) -> Iterator[Captured]:
    """Connect knows the login of the capture by the id of the bank's connection."""
    columns = ", ".join(f"{name} {of}" for of, name in NAMES.items())
    create = [f"CREATE TABLE kinds (id INT PRIMARY KEY, {columns})"]
    with captured_mysql(mysql_root, MYSQL, create=create, tables=("kinds",)) as one:
        secret = resolve("core_bank_capture")
        place = f"{mysql_root.host}:{mysql_root.port}/{MYSQL}"
        monkeypatch.setenv("SEAMLINE_CONNECTION_CORE_BANK_CAPTURE", f"mysql://{secret.login}:{secret.password}@{place}")
        monkeypatch.setenv("SEAMLINE_CONNECTION_PARITY_ROOT", f"mysql://{mysql_root.login}@{place}")
        yield one


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with postgres_database("parity_warehouse") as one, destination_known_by_id(one, "certified"):
        yield one


@pytest.fixture
def copy(stack: RunningStack) -> Iterator[Connection]:
    """A destination of MariaDB."""
    with (
        mariadb_destination("parity_copy") as publisher,
        known_by_id(publisher, "certified", "mysql"),
        known_by_id(mariadb_writer_of(publisher), "certified_writer", "mysql"),
    ):
        yield publisher


def certified(
    one: Captured, folder: Path, *tables: str, owner: str = "", destination: str = DESTINATION, **others: str
) -> tuple[int, str]:
    """(exit code, document) of `seamline certify`; the owner is the server's administrator unless said otherwise.
    `others`: declarations of more destinations, by their names."""
    name, kind = one.source_plan.name, one.source_plan.kind
    names = ", ".join(("certified", *others))
    files = {
        f"sources/{name}.yaml": SOURCES[kind].format(name=name),
        "destinations/certified.yaml": destination,
        **{f"destinations/{other}.yaml": text for other, text in others.items()},
        f"syncs/{name}_sync.yaml": SYNC.format(name=name, destinations=names, tables=", ".join(tables)),
    }
    for file, text in files.items():
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(text, encoding="utf-8")
    one.grant(one.with_tables(*tables))
    out = folder / "certificate.md"
    ended = main(["certify", f"{name}_sync", "--owner", owner or OWNERS[kind], "--out", str(out)])
    return ended, out.read_text(encoding="utf-8") if out.exists() else ""


def verdicts(document: str, table: str) -> dict[str, str]:
    """Column → verdict, of the lines that have six cells."""
    cells = [line[2:-2].split(" | ") for line in document.splitlines() if line.startswith(f"| {table} |")]
    return {line[1]: line[5] for line in cells if len(line) == 6}


def tried(document: str) -> dict[str, str]:
    """Column → what became of its default, of the lines that have four cells."""
    cells = [line[2:-2].split(" | ") for line in document.splitlines() if line.startswith("| given |")]
    return {line[1]: line[3] for line in cells if len(line) == 4}


def left_behind(one: Captured, warehouse: Connection) -> list[object]:
    """What there is of a certificate in the source, in Connect, in Kafka and in the destination."""
    tables = "SELECT table_name FROM information_schema.tables WHERE table_name LIKE 'seamline%certify%'"
    own = "certify." + one.plan.sync
    with closing(postgres(warehouse)) as session:
        found = session.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE '%certify%'").fetchall()
        for table in ("ledger", "boundary", "publication", "finding"):
            if session.execute(f"SELECT to_regclass('seamline.{table}')").fetchone() != (None,):
                found += session.execute(f"SELECT stream FROM seamline.{table}").fetchall()
    names = [f"seamline.{own}.{part}" for part in ("log", "offsets", "schema-history")]
    topics = [name for name in names if one.kafka.topic_id(name)]
    # Connect may show the status of a connector that is gone for a moment.
    connectors = [name for name in (f"seamline-certify-{one.plan.sync}",) if one.client.config(name) is not None]
    slots = []
    if one.source_plan.kind == "postgres":
        slots += one.rows("pg_replication_slots WHERE slot_name LIKE 'seamline_certify%'")
        slots += one.rows("pg_publication WHERE pubname LIKE 'seamline_certify%'")
    return [*one.rows(f"({tables}) AS found"), *found, *topics, *connectors, *slots]


@contextmanager
def owner_of(one: Captured, monkeypatch: pytest.MonkeyPatch, *grants: str, dropped_by: Sequence[str]) -> Iterator[str]:
    """The connection id of a login that has what docs/reference/certificate.md asks for, and nothing else."""
    one.execute(*grants)
    root, kind = one.root, one.source_plan.kind
    monkeypatch.setenv("SEAMLINE_CONNECTION_PARITY_OWNER", f"{kind}://parity_owner:own@{root.host}:{root.port}/")
    try:
        yield "parity_owner"
    finally:
        one.execute(*dropped_by)


def planted(
    monkeypatch: pytest.MonkeyPatch, module: ModuleType, kind: Kind, wrong: Callable[[Column, pa.Array], pa.Array]
) -> None:
    """The log path reads values of one kind wrongly. `module`: the decoder's; `wrong` has the right values."""
    right = module._TYPED[kind]
    monkeypatch.setitem(module._TYPED, kind, lambda column, values: wrong(column, right(column, values)))


def test_every_kind_of_a_mariadb_source_is_the_same_on_both_paths_and_its_owner_needs_the_documented_rights_only(
    bank: Captured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = (
        "CREATE USER parity_owner@'%' IDENTIFIED BY 'own'",
        "GRANT CREATE, ALTER, DROP, SELECT, INSERT, UPDATE, CREATE TEMPORARY TABLES ON `parity\\_test`.*"
        " TO parity_owner@'%'",
    )
    with owner_of(bank, monkeypatch, *grants, dropped_by=["DROP USER parity_owner@'%'"]) as owner:
        ended, document = certified(bank, folder, "kinds", "audit", owner=owner)
        assert left_behind(bank, warehouse) == []
    assert set(verdicts(document, "kinds").values()) == {"SAME"}, document
    assert len(verdicts(document, "kinds")) == len(CASES) + len(INEXACT_CASES) + 1
    refused = document.partition("### Values that the source refuses")[2]
    assert not any(f"| kinds | {name} |" in refused for name in ("dec", "f73", "f102", "truth", "mood", "state"))
    assert ended == 0
    assert document.startswith("# Parity certificate of sync parity_test_sync: SAME\n")


def test_every_kind_of_a_mariadb_source_is_the_same_on_both_paths_into_mariadb(
    bank: Captured, copy: Connection, folder: Path
) -> None:
    ended, document = certified(bank, folder, "kinds", destination=INTO_MARIADB)
    assert set(verdicts(document, "kinds").values()) == {"SAME"}, document
    assert len(verdicts(document, "kinds")) == len(CASES) + len(INEXACT_CASES) + 1
    assert ended == 0
    with closing(mariadb(copy)) as session, session.cursor() as cursor:
        assert cursor.execute("SHOW DATABASES LIKE '%certify%'") == 0


def test_every_type_of_a_mysql_source_is_the_same_on_both_paths_and_its_owner_needs_the_documented_rights_only(
    shop: Captured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.execute(
        "ALTER TABLE kinds ADD l VARCHAR(20) CHARACTER SET latin1, ADD a VARCHAR(20) CHARACTER SET ascii NOT NULL,"
        " ADD at TIMESTAMP NOT NULL, ADD UNIQUE (l), ADD CHECK (a > 'x')"
    )
    grants = (
        "CREATE USER parity_owner@'%' IDENTIFIED BY 'own'",
        "GRANT CREATE, ALTER, DROP, SELECT, INSERT, UPDATE, CREATE TEMPORARY TABLES ON `parity\\_mysql`.*"
        " TO parity_owner@'%'",
        "GRANT BACKUP_ADMIN ON *.* TO parity_owner@'%'",
        "GRANT SELECT ON performance_schema.log_status TO parity_owner@'%'",
    )
    with owner_of(shop, monkeypatch, *grants, dropped_by=["DROP USER parity_owner@'%'"]) as owner:
        ended, document = certified(shop, folder, "kinds", owner=owner)
    assert set(verdicts(document, "kinds").values()) == {"SAME"}, document
    assert len(verdicts(document, "kinds")) == len(NAMES) + 4
    assert "| source | MySQL 9.7" in document
    assert ended == 0
    assert left_behind(shop, warehouse) == []


def test_every_type_of_a_postgresql_source_is_the_same_on_both_paths_and_its_owner_needs_the_documented_rights_only(
    ledger: PostgresCaptured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    grants = (
        "DROP ROLE IF EXISTS parity_owner",
        "CREATE ROLE parity_owner LOGIN PASSWORD 'own'",
        f"GRANT CONNECT, TEMPORARY, CREATE ON DATABASE {POSTGRES} TO parity_owner",
        "GRANT CREATE, USAGE ON SCHEMA public TO parity_owner",
        "ALTER TABLE kinds OWNER TO parity_owner",
    )
    dropped_by = ["REASSIGN OWNED BY parity_owner TO postgres", "DROP OWNED BY parity_owner", "DROP ROLE parity_owner"]
    with owner_of(ledger, monkeypatch, *grants, dropped_by=dropped_by) as owner:
        ended, document = certified(ledger, folder, "kinds", owner=owner)
        assert left_behind(ledger, warehouse) == []
    assert set(verdicts(document, "kinds").values()) == {"SAME"}, document
    assert len(verdicts(document, "kinds")) == len(TYPE_CASES) + 1
    assert ended == 0


def test_every_character_set_that_planning_takes_is_the_same_on_both_paths(
    bank: Captured, warehouse: Connection, folder: Path
) -> None:
    columns = ", ".join(f"in_{name} VARCHAR(20) CHARACTER SET {name}" for name in sorted(CHARACTER_SETS))
    bank.execute(f"CREATE TABLE texts (id INT PRIMARY KEY, {columns})")
    ended, document = certified(bank, folder, "texts")
    assert set(verdicts(document, "texts").values()) == {"SAME"}, document
    assert ended == 0


def test_a_character_set_that_the_connector_reads_otherwise_than_the_server_is_refused_and_would_be_caught(
    bank: Captured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debezium 3.5.0.Final reads ujis, for one, otherwise than the server writes it."""
    sets = ("utf8mb4", "ujis")
    columns = ", ".join(f"in_{name} VARCHAR(20) CHARACTER SET {name}" for name in sets)
    bank.execute(f"CREATE TABLE texts (id INT PRIMARY KEY, {columns})")
    bank.grant(bank.with_tables("texts"))
    with pytest.raises(SchemaConflict, match="ujis"):
        bank.source.catalogue(["texts"])
    monkeypatch.setattr(catalogue, "CHARACTER_SETS", {*CHARACTER_SETS, *sets})
    ended, document = certified(bank, folder, "texts")
    assert ended == 1
    found = verdicts(document, "texts")
    assert {name for name, verdict in found.items() if verdict != "SAME"} == {"in_ujis"}, document
    assert re.search(r"\| texts \| in_ujis \| .* \| log, insert \| snapshot \| ", document), document


@pytest.mark.parametrize("kind", ["mariadb", pytest.param("mysql", marks=ONCE_MORE), "postgres"])
def test_null_into_columns_with_defaults_stays_null_and_a_connector_that_puts_defaults_there_is_caught(
    kind: str, request: pytest.FixtureRequest, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Captured = request.getfixturevalue({"mariadb": "bank", "mysql": "shop", "postgres": "ledger"}[kind])
    given, expected, unknown = GIVEN[kind]
    one.execute(*given)
    ended, document = certified(one, folder, "given")
    assert set(verdicts(document, "given").values()) == {"SAME"}, document
    assert ended == 0
    found = tried(document)
    assert {name: found[name] for name in expected} == expected
    sent = {name for name, text in found.items() if text == "NULL was sent against it"}
    assert set(found) - sent == set(expected)
    assert left_behind(one, warehouse) == []
    monkeypatch.setitem(connector_config._VALUES, "value.converter.replace.null.with.default", "true")
    ended, document = certified(one, folder, "given")
    assert ended == 1
    found = verdicts(document, "given")
    assert {name for name, verdict in found.items() if verdict == "DIFFERENT"} == sent - unknown, document
    assert {name for name, verdict in found.items() if verdict == "SAME"} == {*found} - (sent - unknown), document
    for path in ("log, insert", "log, update", "log, large transaction"):
        assert f"| given | quotes | NULL | {path} | snapshot | NULL | it'" in document
    assert left_behind(one, warehouse) == []


def test_keys_checks_and_triggers_of_the_tables_are_not_in_the_way(
    bank: Captured, warehouse: Connection, folder: Path
) -> None:
    bank.execute(*IN_THE_WAY)
    ended, document = certified(bank, folder, "strict", "keyless")
    assert set(verdicts(document, "strict").values()) == {"SAME"}, document
    assert set(verdicts(document, "keyless").values()) == {"SAME"}, document
    assert ended == 0
    assert bank.rows("strict") == []
    assert left_behind(bank, warehouse) == []


def test_moments_that_the_log_path_shifts_and_reads_in_another_time_zone_are_caught_and_shown_on_both_paths(
    bank: Captured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, mysql_rows, Kind.DATETIME, lambda _, found: later(found, microseconds=1))
    planted(monkeypatch, mysql_rows, Kind.INSTANT, lambda _, found: later(found, microseconds=9 * 3_600_000_000))
    ended, document = certified(bank, folder, "kinds")
    assert ended == 1
    instants = {case.column.name for case in CASES if case.column.kind is Kind.INSTANT}
    wrong = {name for name, verdict in verdicts(document, "kinds").items() if verdict != "SAME"}
    assert wrong == {"dt6", *instants}, document
    shown = "1970-01-01 00:00:00 | 1970-01-01 00:00:00.000001 |"
    for path in ("log, insert", "log, update", "log, large transaction"):
        assert f"| kinds | dt6 | '1970-01-01 00:00:00.000000' | {path} | snapshot | {shown}" in document
    assert left_behind(bank, warehouse) == []


def test_a_decimal_that_the_log_path_cuts_is_caught(
    ledger: PostgresCaptured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, postgres_rows, Kind.DECIMAL, lambda column, found: cut_off(column, found, places=17))
    ended, document = certified(ledger, folder, "kinds")
    assert ended == 1
    wrong = {name for name, verdict in verdicts(document, "kinds").items() if verdict != "SAME"}
    assert wrong == {"exact", "wide", "free"}, document
    assert left_behind(ledger, warehouse) == []


@pytest.mark.parametrize(
    ("way", "paths"),
    [
        ("_read", {"log, insert", "log, update", "log, large transaction", "log, large transaction with NaN"}),
        # What has a NaN beside it; the rows of every edge value have one.
        ("_read_around_words", {"log, insert", "log, update", "log, large transaction with NaN"}),
    ],
)
def test_a_fault_in_one_way_of_reading_images_is_caught_on_its_paths_alone(
    ledger: PostgresCaptured,
    warehouse: Connection,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    paths: set[str],
) -> None:
    right = getattr(RowImages, way)

    def wrong(*args: object) -> pa.Table:
        rows: pa.Table = right(*args)
        if "small" not in rows.column_names:
            return rows
        numbers = rows.column("small")
        less = pc.if_else(pc.equal(numbers, 32767), 32766, numbers)
        return rows.set_column(rows.column_names.index("small"), "small", less)

    monkeypatch.setattr(RowImages, way, wrong)
    ended, document = certified(ledger, folder, "kinds")
    assert ended == 1
    differing = [line for line in document.splitlines() if line.startswith("| kinds | small | 32767 |")]
    assert {line.split(" | ")[3] for line in differing} == paths, document


def test_a_path_that_ends_leaves_every_column_not_sent_and_nothing_behind(
    bank: Captured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    planted(monkeypatch, mysql_rows, Kind.YEAR, lambda _, found: pc.add_checked(found, pa.scalar(32_000, found.type)))
    ended, document = certified(bank, folder, "kinds")
    assert ended == 1
    assert set(verdicts(document, "kinds").values()) == {"NOT SENT"}
    assert re.search(
        "Nothing was compared: a row image of .*kinds holds a value in column .* that is no year", document
    ), document
    assert left_behind(bank, warehouse) == []


@pytest.mark.parametrize("kind", [pytest.param("mariadb", marks=ONCE_MORE), "postgres"])
def test_a_certificate_that_is_interrupted_in_a_transaction_leaves_nothing_behind(
    kind: str, request: pytest.FixtureRequest, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one: Captured = request.getfixturevalue("bank" if kind == "mariadb" else "ledger")
    probes = binlog_probes if kind == "mariadb" else postgres_probes
    right = probes.transactions

    def torn(probe: Probe, path: ProbePath, **how: Any) -> Sequence[Sequence[str]]:
        expected = right(probe, path, **how)
        # The statement behind the first ends in an error, with a row of the transaction written.
        return expected if path is ProbePath.SNAPSHOT else [[*expected[0], "SELECT nowhere"]]

    monkeypatch.setattr(probes, "transactions", torn)
    certified(one, folder, "kinds")
    assert left_behind(one, warehouse) == []


def test_a_table_of_somebody_else_is_left_alone_and_that_of_a_killed_certificate_is_not(
    bank: Captured, warehouse: Connection, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bank.execute("CREATE TABLE keyless (a INT)", "CREATE TABLE seamline_certify_keyless (a INT)")
    assert certified(bank, folder, "keyless") == (3, "")
    assert "table seamline_certify_keyless is in the way" in capsys.readouterr().err
    mark = "made by seamline certify_5bb4ad2e"
    bank.execute(f"ALTER TABLE seamline_certify_keyless COMMENT = '{mark}'")
    ended, document = certified(bank, folder, "keyless")
    assert ended == 0, document
    assert left_behind(bank, warehouse) == []


def test_a_running_stream_of_the_same_source_does_not_notice(
    bank: Captured, warehouse: Connection, folder: Path
) -> None:
    with postgres_database("parity_stream") as database, streamed(bank, database, "account") as stream:
        stream.start()
        bank.execute("INSERT INTO account VALUES (1, 1, 'before')")
        ended, document = certified(bank, folder, "account", "kinds")
        assert ended == 0, document
        bank.execute("INSERT INTO account VALUES (2, 2, 'after')")
        stream.wait_until_applied()
        assert stream.query("SELECT id FROM live.account ORDER BY id") == [(1,), (2,)]
        assert stream.error is None


def test_a_table_of_another_schema_is_certified_under_its_name_in_the_sync(
    ledger: PostgresCaptured, warehouse: Connection, folder: Path
) -> None:
    logins = ", ".join(f'"{resolve(name).login}"' for name in (ledger.source_plan.reader, ledger.source_plan.capture))
    ledger.execute(
        "CREATE SCHEMA sales",
        create_table("sales.kinds", key="id int PRIMARY KEY, "),
        f"GRANT USAGE ON SCHEMA sales TO {logins}",
        f"GRANT SELECT ON sales.kinds TO {logins}",
    )
    ended, document = certified(ledger, folder, "sales.kinds")
    assert set(verdicts(document, "sales_kinds").values()) == {"SAME"}, document
    assert ended == 0
    assert left_behind(ledger, warehouse) == []


def test_a_table_of_another_database_is_certified_under_its_name_in_the_sync(
    bank: Captured, warehouse: Connection, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(SOURCES, "mariadb", SOURCES["mariadb"] + "databases: [parity_sales]\n")
    logins = [resolve(name).login for name in (bank.source_plan.reader, bank.source_plan.capture)]
    try:
        bank.execute(
            "CREATE OR REPLACE DATABASE parity_sales",
            "CREATE TABLE parity_sales.kinds LIKE kinds",
            *(f"GRANT SELECT ON parity_sales.* TO '{login}'@'%'" for login in logins),
        )
        ended, document = certified(bank, folder, "parity_sales.kinds")
        assert set(verdicts(document, "parity_sales_kinds").values()) == {"SAME"}, document
        assert ended == 0
        assert left_behind(bank, warehouse) == []
    finally:
        # Rights outlive their database, and would be those of the next one of its name.
        bank.execute(
            "DROP DATABASE IF EXISTS parity_sales",
            *(f"REVOKE SELECT ON parity_sales.* FROM '{login}'@'%'" for login in logins),
        )
