"""`./seamline init` writes declarations of a foreign database that validate, and never writes over a file."""

from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from seamline.adapters.connections import Connection
from seamline.cli.main import main
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.sources.kafka.source import KafkaSource
from seamline.spec.load import load_sync
from tests.conftest import RunningStack
from tests.integration.captured_topics import captured_topics, envelope, key
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id

DATABASE = "init_test"
# The same bank in both dialects: a currency that its values show, a table without a key, and one without a date.
TABLES = (
    "CREATE TABLE payment (id bigint PRIMARY KEY, value_date date NOT NULL, created_at timestamp NOT NULL,"
    " amount decimal(19,2) NOT NULL, unit char(3) NOT NULL)",
    "INSERT INTO payment VALUES (1, '2026-11-27', '2026-11-27 10:00:00', 12.50, 'CNY'),"
    " (2, '2026-11-27', '2026-11-27 11:00:00', 3.25, 'USD'), (3, '2026-11-28', '2026-11-28 09:00:00', 9.99, 'CNY'),"
    " (4, '2026-11-28', '2026-11-28 09:30:00', 1.00, 'CNY'), (5, '2026-11-28', '2026-11-28 10:30:00', 2.00, 'USD'),"
    " (6, '2026-11-28', '2026-11-28 11:30:00', 1.50, 'USD'), (7, '2026-11-28', '2026-11-28 12:30:00', 2.50, 'CNY'),"
    " (8, '2026-11-28', '2026-11-28 13:30:00', 4.00, 'USD')",
    "CREATE TABLE access_audit (said varchar(40), at timestamp NOT NULL)",
    "CREATE TABLE branch (code char(4) PRIMARY KEY, name varchar(80))",
)


@pytest.fixture
def folder(stack: RunningStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    with postgres_database("init_test_dwh") as warehouse, known_by_id(warehouse, "dwh", "postgres"):
        yield tmp_path


def run_postgres(root: Connection, statements: Sequence[str]) -> None:
    with closing(postgres(root)) as session:
        for statement in statements:
            session.execute(statement)


def run_mariadb(root: Connection, statements: Sequence[str]) -> None:
    with closing(mariadb(root)) as session, session.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def written(folder: Path, sync: str) -> SyncPlan:
    return compile_plan(load_sync(folder / "syncs" / f"{sync}.yaml"), sync)


def test_a_foreign_schema_of_postgresql_becomes_declarations_that_validate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with postgres_database(DATABASE) as root, known_by_id(root, "core", "postgres"):
        prices = "CREATE TABLE price (id int PRIMARY KEY, amount money)"
        run_postgres(root, [*TABLES, prices])
        assert main(["init", "pay", "--from", "core", "--to", "dwh", "--yes"]) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    plan = written(folder, "pay")
    assert [table.name for table in plan.tables] == ["access_audit", "branch", "payment"]
    (parked,) = plan.parked
    assert parked.name == "price" and "numeric(19,2)" in parked.reason
    dates = {table.name: table.business_date and table.business_date.column for table in plan.tables}
    assert dates == {"access_audit": "at", "branch": None, "payment": "value_date"}
    assert [(one.table, one.column, one.by) for one in plan.reconcile.control_totals] == [
        ("payment", "amount", ("unit",))
    ]
    text = (folder / "syncs" / "pay.yaml").read_text(encoding="utf-8")
    assert "value_date from 2026-11-27 to 2026-11-28" in text and "created_at (local" in text
    assert "without a key, kept exact as a multiset: access_audit" in said
    assert "price is parked" in said and "./seamline grants core" in said
    assert (plan.source.kind, plan.source.schema, plan.destinations[0].namespace) == ("postgres", "public", "pay")


def test_a_foreign_database_of_mariadb_becomes_declarations_that_validate(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mariadb_database(DATABASE) as root, known_by_id(root, "core", "mysql"):
        run_mariadb(root, TABLES)
        arguments = ["--from", "core", "--to", "dwh", "--tables", "pay*,branch", "--timezone", "Asia/Shanghai", "--yes"]
        assert main(["init", "pay", *arguments]) == 0, capsys.readouterr().err
    plan = written(folder, "pay")
    assert (plan.source.kind, [table.name for table in plan.tables]) == ("mariadb", ["branch", "payment"])
    assert plan.nightly is not None and plan.nightly.timezone == "Asia/Shanghai"
    assert plan.reconcile.expectations == "pay"
    assert plan.source.capture == "core", "its login can read the log, too"


def test_a_source_whose_log_may_not_be_read_becomes_a_sync_of_nights_alone(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with mariadb_database(DATABASE) as root, known_by_id(root, "core", "mysql"):
        run_mariadb(root, TABLES)
        assert main(["init", "pay", "--from", "core", "--to", "dwh", "--nights-only", "--yes"]) == 0
        said = capsys.readouterr().out
        assert main(["init", "more", "--from", "core", "--to", "dwh", "--nights-only", "--yes"]) == 0
    plan = written(folder, "pay")
    assert not plan.source.has_log and plan.nightly is not None and not plan.streamed.destinations
    assert "each night makes a cut" in said and "_capture" not in said


def test_a_second_sync_takes_the_source_and_destination_that_are_declared_and_nothing_is_written_over(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with postgres_database(DATABASE) as root, known_by_id(root, "core", "postgres"):
        run_postgres(root, TABLES)
        assert main(["init", "pay", "--from", "core", "--to", "dwh", "--tables", "payment", "--yes"]) == 0
        before = {file: file.read_bytes() for file in folder.rglob("*.yaml")}
        assert main(["init", "branches", "--from", "core", "--to", "dwh", "--tables", "branch", "--yes"]) == 0
        capsys.readouterr()
        assert main(["init", "pay", "--from", "core", "--to", "dwh", "--yes"]) == 2
    assert "is there already" in capsys.readouterr().err
    assert {file: file.read_bytes() for file in before} == before
    assert written(folder, "branches").source.name == "core"


def test_topics_of_debeziums_become_declarations_by_the_schemas_of_their_newest_messages(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with captured_topics("init_topics") as topics:
        producer = topics.producer()
        row = (1, 1007, 20_000, "户名")
        producer.produce("topics-test.account", envelope("c", None, row), key(1))
        producer.produce("topics-test.account", envelope("d", row, None), key(1))
        producer.produce("topics-test.account", None, key(1))
        producer.produce("topics-test.rate", '{"currency":"EUR","rate":1}', "EUR")
        producer.produce("topics-test.note", b"\0\0\0\0\1avro")
        assert producer.flush(30) == 0
        arguments = ["--from", "kafka", "--to", "dwh", "--tables", "topics-test.*", "--yes"]
        assert main(["init", "queue", *arguments]) == 0, capsys.readouterr().err
        heard = capsys.readouterr()
        plan = written(folder, "queue")
        (found,) = KafkaSource(plan.source).catalogue(("account",))
    assert (plan.source.kind, [table.name for table in plan.tables]) == ("kafka", ["account"])
    assert [(one.name, one.source_type, one.nullable) for one in found.columns] == [
        ("id", "bigint", False), ("balance", "decimal(18,2)", False), ("opened", "date", False), ("memo", "text", False)
    ]  # fmt: skip
    assert "none of Debezium with a schema: topics-test.rate" in heard.err
    assert "topic topics-test.note is left out: its messages are no JSON but of a schema registry" in heard.err
    assert "./seamline onboard queue" in heard.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--from", "cor", "--to", "dwh"), "there is no source `cor` and no connection of this id"),
        (("--from", "core", "--to", "dwh", "--tables", "nothing*"), "no table of public matches `nothing*`"),
        (("--from", "core", "--to", "dwh", "--timezone", "Asia/Atlantis"), "Asia/Atlantis"),
    ],
)
def test_what_cannot_be_written_ends_in_one_sentence_and_leaves_no_file(
    arguments: Sequence[str], said: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with postgres_database(DATABASE) as root, known_by_id(root, "core", "postgres"):
        run_postgres(root, TABLES)
        assert main(["init", "pay", *arguments, "--yes"]) == 2
    assert said in capsys.readouterr().err
    assert not list(folder.rglob("*.yaml"))
