"""What a publish does to a PostgreSQL that people already use."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from seamline.adapters.connections import Connection, resolve
from seamline.databases.postgres.read import PostgresReadView, Relation
from seamline.domain.canonical import digest_of, row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.errors import (
    ConfigError,
    Fenced,
    GateFailed,
    Refused,
    SchemaConflict,
    SeamlineError,
    TransientError,
)
from seamline.domain.ledger import StreamId
from seamline.ports import Load
from seamline.sinks.postgres import publish as publishing
from seamline.sinks.postgres.sink import PostgresSink
from seamline.sources.mariadb.position import BinlogPosition
from tests.contract.behaviours import Applying, account, texts
from tests.contract.worlds import PostgresWorld
from tests.integration.databases import postgres, postgres_database, writer_of
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, insert, publication
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def database(stack: object) -> Iterator[Connection]:
    with postgres_database("stream_publish") as connection:
        yield connection


@pytest.fixture
def world(database: Connection) -> Iterator[PostgresWorld]:
    made = PostgresWorld(TABLES, database)
    yield made
    made.close()


def publish(world: PostgresWorld, run_id: str = "run-1", **rows: list[dict[str, object]]) -> None:
    loads = [world.load(table, rows.get(table.name, [])) for table in TABLES]
    world.sink().publish(STREAM, loads, publication=publication(run_id=run_id))


def test_a_table_that_somebody_else_made_is_left_alone(world: PostgresWorld) -> None:
    world.session.execute("CREATE SCHEMA settlement")
    world.session.execute("CREATE TABLE settlement.account (mine text)")
    with pytest.raises(Refused, match="was not made by settlement@warehouse"):
        publish(world)
    assert world.session.execute("SELECT to_regclass('settlement.audit')").fetchone() == (None,)
    assert world.sink().read_ledger(STREAM) is None


def test_staged_values_that_are_not_those_compared_with_the_source_are_not_published(world: PostgresWorld) -> None:
    loads = [world.load(table, [account(1), account(2)] if table is ACCOUNT else []) for table in TABLES]
    held = digest_of([row_text(ACCOUNT.columns, [n, "a"]) for n in ("1", "2")], run_key="key")
    compared = [replace(load, digest=KeyedDigest("key", held)) if load.table is ACCOUNT else load for load in loads]
    place = f"settlement_stage.{compared[TABLES.index(ACCOUNT)].staged_as}"
    world.session.execute(f"UPDATE {place} SET name = 'b' WHERE id = 2")
    with pytest.raises(GateFailed, match="now holds other values; 2 rows were compared"):
        world.sink().publish(STREAM, compared, publication=publication())
    assert world.sink().read_ledger(STREAM) is None
    world.session.execute(f"UPDATE {place} SET name = 'a' WHERE id = 2")
    world.sink().publish(STREAM, compared, publication=publication())
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


RATE = Table(
    "rate",
    (
        Column("id", Kind.INTEGER, "int", nullable=False, length=32),
        Column("f", Kind.FLOAT, "float"),
        Column("d", Kind.DOUBLE, "double"),
    ),
    ("id",),
)


@pytest.mark.parametrize(
    "changed",
    ["d = 0.30000000000000004", "d = NULL", "f = f + 1e-7", "f = -f", "d = 'NaN'", "d = 1 - d"],
)
def test_a_staged_float_that_is_not_the_one_compared_with_the_source_is_not_published(
    world: PostgresWorld, changed: str
) -> None:
    load = world.load(RATE, [{"id": 1, "f": 0.0, "d": 0.7}, {"id": 2, "f": 0.25, "d": 0.3}])
    place = f"settlement_stage.{load.staged_as}"
    load = replace(load, digest=compared_with(world, load))
    loads = [load, *(world.load(table, []) for table in TABLES)]
    # The last case exchanges the doubles of two rows.
    rows = "true" if changed == "d = 1 - d" else "id = 1" if changed == "f = -f" else "id = 2"
    world.session.execute(f"CREATE TABLE settlement_stage.kept AS TABLE {place}".encode())
    world.session.execute(f"UPDATE {place} SET {changed} WHERE {rows}".encode())
    with pytest.raises(GateFailed, match="now holds other values; 2 rows were compared"):
        world.sink().publish(STREAM, loads, publication=publication())
    assert world.sink().read_ledger(STREAM) is None
    world.session.execute(f"TRUNCATE {place}".encode())
    world.session.execute(f"INSERT INTO {place} TABLE settlement_stage.kept".encode())
    world.sink().publish(STREAM, loads, publication=publication())
    assert world.session.execute("SELECT count(*) FROM settlement.rate").fetchone() == (2,)


def compared_with(world: PostgresWorld, load: Load) -> KeyedDigest:
    """As a comparison leaves it, in a session of its own."""
    view = PostgresReadView(
        world.session,
        tables=[load.table],
        relations={load.table.name: Relation("settlement_stage", load.staged_as)},
        position=BinlogPosition("0-1-7"),
    )
    (exact,) = view.digests(Segment(load.table.name), run_key="key").values()
    return KeyedDigest("key", exact, view.whole_digest(load.table.name, run_key="key"))


def test_a_large_transaction_whose_chunks_the_destination_lost_is_not_committed(world: PostgresWorld) -> None:
    publish(world)
    stream = Applying(world)
    batches = stream.batches(*[insert(ACCOUNT, **account(n)) for n in range(30)], chunks=3)
    staged = [stream.sink.stage(stream.lease, batch) for batch in batches]
    # They end with the session that spilled them; whoever goes on in another one has the rest alone.
    stream.sink.close()
    with pytest.raises(TransientError, match="10 spilled rows are there, 30 were spilled"):
        stream.sink.commit(stream.lease, staged, progress=stream.progress())
    assert world.rows(ACCOUNT) == []
    assert world.sink().read_ledger(STREAM) == stream.lease.ledger


def test_chunks_that_an_earlier_version_has_left_go_with_the_next_publish(world: PostgresWorld) -> None:
    """By the publisher, who owns them; the ledger's own epoch may be that of a worker of that version."""
    publish(world)
    epoch = Applying(world).lease.epoch
    mark = hashlib.sha256(str(STREAM).encode()).hexdigest()[:16]
    for name in (f"piece_{mark}_{epoch - 1}_0", f"piece_{mark}_{epoch}_0", f"piece_{'0' * 16}_7_1", "piece_of_mine"):
        world.session.execute(f"CREATE UNLOGGED TABLE seamline.{name} (n int)")
    world.sink().publish(StreamId("other", "warehouse"), [], publication=publication([], run_id="run-2"))
    left = world.session.execute("SELECT relname FROM pg_class WHERE relname LIKE 'piece%' ORDER BY 1").fetchall()
    assert left == [(f"piece_{mark}_{epoch}_0",), ("piece_of_mine",)]
    Applying(world).span(*[insert(ACCOUNT, **account(n)) for n in range(30)], chunks=3)
    assert len(world.rows(ACCOUNT)) == 30


@pytest.fixture
def reader(world: PostgresWorld, database: Connection) -> Iterator["psycopg.Connection[Any]"]:
    """Somebody who was given the live tables and a view of his, in a transaction that stands where it began."""
    publish(world, account=[account(1), account(3)], audit=[said("ann"), said("ann"), said("bob")])
    root = replace(resolve("postgres_root"), database=database.database)
    with postgres(root) as owner:
        owner.execute("DROP ROLE IF EXISTS publish_reader")
        owner.execute("CREATE ROLE publish_reader LOGIN PASSWORD 'pw'")
        owner.execute(f"GRANT CONNECT ON DATABASE {database.database} TO publish_reader")
        try:
            world.session.execute("GRANT USAGE ON SCHEMA settlement TO publish_reader")
            world.session.execute("CREATE VIEW settlement.names AS SELECT name FROM settlement.account")
            for relation in ("account", "audit", "names"):
                world.session.execute(f"GRANT SELECT ON settlement.{relation} TO publish_reader")
            with postgres(replace(database, login="publish_reader", password="pw")) as session:
                yield session
        finally:
            owner.execute("DROP OWNED BY publish_reader")
            owner.execute("DROP ROLE publish_reader")


def said(actor: str) -> dict[str, object]:
    return {"actor": actor, "action": "login"}


def test_views_grants_and_readers_of_a_live_table_are_undisturbed_by_the_next_publish(
    world: PostgresWorld, reader: "psycopg.Connection[Any]"
) -> None:
    asked = "SELECT (SELECT string_agg(name, ',' ORDER BY name) FROM settlement.names), count(*) FROM settlement.audit"
    reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert reader.execute(asked).fetchone() == ("a,a", 3)
    publish(world, "run-2", account=[account(1, "new"), account(2)], audit=[said("ann"), said("eve")])
    assert reader.execute(asked).fetchone() == ("a,a", 3), "what it had begun to read it reads to its end"
    reader.execute("COMMIT")
    assert reader.execute(asked).fetchone() == ("a,new", 2), "and then the new rows, with the rights of before"


def test_unchanged_rows_are_not_written_again_by_the_next_publish(world: PostgresWorld) -> None:
    publish(world, account=[account(1), account(2)])
    before = world.session.execute("SELECT id, ctid::text FROM settlement.account ORDER BY id").fetchall()
    publish(world, "run-2", account=[account(1), account(2, "new")])
    after = world.session.execute("SELECT id, ctid::text FROM settlement.account ORDER BY id").fetchall()
    assert after[0] == before[0]
    assert after[1] != before[1]


def test_unchanged_rows_without_a_key_are_not_written_again_by_the_next_publish(world: PostgresWorld) -> None:
    asked = "SELECT actor, ctid::text FROM settlement.audit ORDER BY actor, ctid"
    publish(world, audit=[said("ann"), said("ann"), said("ann"), said("bob"), said("joe")])
    before = world.session.execute(asked).fetchall()
    publish(world, "run-2", audit=[said("ann"), said("ann"), said("joe"), said("joe"), said("zoe")])
    after = world.session.execute(asked).fetchall()
    assert [actor for actor, _ in after] == ["ann", "ann", "joe", "joe", "zoe"]
    assert len(set(before) & set(after)) == 3, "two of ann's and one of joe's stayed where they were"


def test_what_a_hand_has_changed_in_a_row_without_a_key_is_mended_though_its_type_takes_it_for_nothing(
    database: Connection,
) -> None:
    table = Table("odd", (Column("code", Kind.CHAR, "char(3)", length=3), Column("span", Kind.TIME, "time")))
    world = PostgresWorld([table], database)
    rows = [{"code": "a", "span": 86_400_000_000}, {"code": "b", "span": 1}]
    for run_id in ("run-1", "run-2"):
        load = world.load(table, rows)
        world.sink().publish(STREAM, [load], publication=publication(run_id=run_id, tables=[table]))
        found = world.session.execute("SELECT code, span::text FROM settlement.odd ORDER BY code").fetchall()
        assert found == [("a", "24:00:00"), ("b", "00:00:00.000001")]
        world.session.execute("UPDATE settlement.odd SET code = 'a ', span = '1 day' WHERE code = 'a'")
    world.close()


@pytest.mark.parametrize("name", ["identity", "copy", 'a "quoted" name'])
def test_a_column_may_have_any_name_where_rows_without_a_key_are_merged(database: Connection, name: str) -> None:
    table = Table("odd", (Column(name, Kind.STRING, "varchar(20)", length=20),))
    world = PostgresWorld([table], database)
    for run_id, values in (("run-1", ["x", "x", "y"]), ("run-2", ["x", "z"])):
        load = world.load(table, [{name: value} for value in values])
        world.sink().publish(STREAM, [load], publication=publication(run_id=run_id, tables=[table]))
    assert world.rows(table) == texts({name: "x"}, {name: "z"})
    world.close()


def test_a_live_table_of_another_schema_is_refused_with_the_cure(world: PostgresWorld) -> None:
    publish(world, account=[account(1)])
    world.session.execute("ALTER TABLE settlement.account ADD COLUMN extra int")
    with pytest.raises(SchemaConflict, match="extra") as caught:
        publish(world, "run-2")
    assert "rename or drop settlement.account" in caught.value.hint
    assert world.rows(ACCOUNT) == texts(account(1)), "the old rows stand"


@pytest.mark.parametrize(
    ("before", "after"), [((), ("actor",)), (("actor",), ()), (("actor",), ("actor", "action"))], ids=str
)
def test_a_live_table_under_another_key_is_refused_with_the_cure(
    world: PostgresWorld, before: tuple[str, ...], after: tuple[str, ...]
) -> None:
    """Its rows could not be distinguished by the new key, or would be kept apart by the old one."""
    row = {"actor": "x", "action": "y"}
    columns = tuple(replace(column, nullable=False) for column in AUDIT.columns)
    old, new = (replace(AUDIT, columns=columns, key=key) for key in (before, after))
    world.sink().publish(STREAM, [world.load(old, [row])], publication=publication([old]))
    load = world.load(new, [row])
    with pytest.raises(SchemaConflict, match="acti?o[rn].*primary key") as caught:
        world.sink().publish(STREAM, [load], publication=publication([new], run_id="run-2"))
    assert "rename or drop settlement.audit" in caught.value.hint
    world.session.execute("DROP TABLE settlement.audit")
    world.sink().publish(STREAM, [load], publication=publication([new], run_id="run-2"))
    assert world.rows(new) == texts(row)


def test_a_live_column_that_takes_no_null_where_the_source_has_some_is_named_with_the_cure(
    world: PostgresWorld,
) -> None:
    publish(world)
    world.session.execute("ALTER TABLE settlement.audit ALTER COLUMN actor SET NOT NULL")
    with pytest.raises(SchemaConflict, match="takes no NULL in the columns actor") as caught:
        publish(world, "run-2")
    cure, _, _ = caught.value.hint.partition(";")
    world.session.execute(cure)
    publish(world, "run-2", audit=[{"actor": None, "action": "y"}])
    assert world.rows(AUDIT) == texts({"actor": None, "action": "y"})


def test_a_reader_that_blocks_the_publish_makes_it_try_later(world: PostgresWorld, database: Connection) -> None:
    publish(world, account=[account(1)])
    with postgres(database) as reader:
        reader.execute("BEGIN")
        reader.execute("LOCK TABLE settlement.account IN SHARE MODE")
        with pytest.raises(TransientError, match="lock"):
            publish(world, "run-2")
    publish(world, "run-2", account=[account(2)])
    assert world.rows(ACCOUNT) == texts(account(2))


def test_two_publishes_of_one_run_at_once_end_in_one(world: PostgresWorld) -> None:
    loads = [world.load(table, [account(1)] if table is ACCOUNT else []) for table in TABLES]
    errors: list[SeamlineError] = []
    sinks: list[PostgresSink] = [world.sink(), world.sink()]

    def publish_once(sink: PostgresSink) -> None:
        try:
            sink.publish(STREAM, loads, publication=publication())
        except SeamlineError as exc:
            errors.append(exc)

    threads = [threading.Thread(target=publish_once, args=(sink,)) for sink in sinks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert errors == []
    assert world.sink().publish(STREAM, loads, publication=publication()).ledger.epoch == 1
    assert world.rows(ACCOUNT) == texts(account(1))


def test_a_stream_cannot_commit_between_the_statements_of_a_publish(
    world: PostgresWorld, database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    publish(world)
    stream = Applying(world)
    ended: list[SeamlineError | None] = []

    def commit_meanwhile() -> None:
        try:
            stream.span(insert(AUDIT, actor="late", action="login"))
            ended.append(None)
        except SeamlineError as exc:
            ended.append(exc)

    thread = threading.Thread(target=commit_meanwhile)
    merge = publishing._merge_into_live

    def merge_later(*arguments: Any) -> None:
        if not thread.ident:
            thread.start()
            with postgres(writer_of(database)) as watching:
                wait_until(lambda: ended or waits_for_a_lock(watching), timeout_s=30, what="the commit to be held back")
        merge(*arguments)

    monkeypatch.setattr(publishing, "_merge_into_live", merge_later)
    publish(world, "run-2", audit=[{"actor": "x", "action": "y"}])
    thread.join(timeout=60)
    assert [type(error) for error in ended] == [Fenced]
    assert world.rows(AUDIT) == texts({"actor": "x", "action": "y"})


def waits_for_a_lock(session: "psycopg.Connection[Any]") -> bool:
    row = session.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%seamline.ledger%'"
    ).fetchone()
    return row is not None and row[0] > 0


def test_boundaries_of_tables_that_left_the_sync_end_with_the_next_publish(world: PostgresWorld) -> None:
    publish(world)
    loads = [world.load(ACCOUNT, [account(1)])]
    one_table = replace(publication(run_id="run-2"), boundaries=publication(run_id="run-2").boundaries[:1])
    assert [boundary.table for boundary in one_table.boundaries] == ["account"]
    ledger = world.sink().publish(STREAM, loads, publication=one_table).ledger
    assert [boundary.table for boundary in ledger.boundaries if not boundary.ended] == ["account"]


def test_the_keys_of_a_published_table_have_their_own_names_and_keyless_ones_their_identity(
    world: PostgresWorld,
) -> None:
    publish(world)
    indexes = dict(
        world.session.execute(
            "SELECT tablename, indexdef FROM pg_indexes WHERE schemaname = 'settlement' ORDER BY 1"
        ).fetchall()
    )
    assert "account_pkey" in indexes["account"]
    assert "transfer_pkey" in indexes["transfer"]
    assert "hashtextextended" in indexes["audit"]


def test_a_removal_from_a_large_keyless_table_uses_the_identity_index(world: PostgresWorld) -> None:
    publish(world, audit=[{"actor": "x", "action": str(n)} for n in range(5000)])
    stream = Applying(world)
    on = stream.sink._statements["audit"]  # type: ignore[attr-defined]  # noqa: SLF001
    session = postgres(writer_of(world._connection))  # noqa: SLF001
    session.execute(on.create_staging)
    plan = "\n".join(line for (line,) in session.execute(f"EXPLAIN {on.staged.remove_copies}").fetchall())
    session.close()
    assert "Seq Scan on audit" not in plan
    assert plan.count("on audit") >= 2


def test_a_span_into_a_table_whose_column_somebody_dropped_stops_with_the_table(world: PostgresWorld) -> None:
    publish(world)
    world.session.execute("ALTER TABLE settlement.account DROP COLUMN name CASCADE")
    stream = Applying(world)
    with pytest.raises(SchemaConflict, match="name") as caught:
        stream.span(insert(ACCOUNT, **account(1)))
    assert caught.value.table == "account"
    assert stream.sink.read_ledger(STREAM) == stream.lease.ledger


def test_a_value_the_destination_refuses_stops_the_span_whole(world: PostgresWorld) -> None:
    publish(world)
    stream = Applying(world)
    with pytest.raises(SchemaConflict, match="too long for type character varying"):
        stream.span(insert(AUDIT, actor="x", action="y"), insert(ACCOUNT, id=1, name="a" * 41))
    assert world.rows(AUDIT) == []


def test_a_server_that_is_away_is_transient_and_a_wrong_password_is_reported_as_a_setting(
    world: PostgresWorld, database: Connection
) -> None:
    away = postgres_sink(world.plan, world.plan.destinations[0], resolve=lambda _: replace(database, port=1))
    with pytest.raises(TransientError, match="cannot be reached"):
        away.read_ledger(STREAM)
    wrong = postgres_sink(
        world.plan, world.plan.destinations[0], resolve=lambda _: replace(database, password="not-this")
    )
    with pytest.raises(ConfigError, match="refuses the session"):
        wrong.read_ledger(STREAM)
