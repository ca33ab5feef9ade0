"""What is done to a source's table at different times is judged one by one: maintenance passes, however much of it
comes together over the weeks. An alteration that was undone between two looks stops the stream, also after all that.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Table
from seamline.domain.catalogue_fingerprints import CatalogueFingerprints, fingerprints_in
from seamline.domain.errors import SchemaConflict, TransientError
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.catalogue import read_catalogue
from seamline.sources.postgres.client import Session, open_session, translated
from seamline.sources.postgres.heartbeat_payload import CataloguePayload
from seamline.sources.postgres.position import PostgresPosition
from seamline.sources.postgres.schema_guard import CatalogueGuard
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import known_by_id
from tests.waiting import wait_until

SOURCE = SourcePlan("guarded", "postgres", "schema_guard", "guarded", "guarded", "guarded", "t", "c", schema="bank")
TABLE = (
    "CREATE TABLE bank.entry (id int PRIMARY KEY, amount numeric(12,2) DEFAULT 1, memo text)",
    "INSERT INTO bank.entry VALUES (1, 1.25, 'long enough'), (2, 2.50, 'x')",
)
# Each leaves every stored value what it was and means.
MAINTENANCE = (
    "ALTER TABLE bank.entry ALTER memo SET DEFAULT 'none'",
    "VACUUM FULL bank.entry",
    "ALTER TABLE bank.entry ALTER memo SET STORAGE EXTERNAL",
    "CLUSTER bank.entry USING entry_pkey",
    "ALTER TABLE bank.entry ALTER memo DROP DEFAULT",
    "CREATE INDEX CONCURRENTLY ON bank.entry (memo)",
    "REINDEX TABLE bank.entry",
    "COMMENT ON COLUMN bank.entry.memo IS 'of the client'",
    "ALTER TABLE bank.entry ALTER amount SET STATISTICS 500",
    "VACUUM FULL bank.entry",
    "ALTER TABLE bank.entry ALTER memo SET COMPRESSION pglz",
    "ALTER TABLE bank.entry ALTER amount SET DEFAULT 2",
    "ALTER TABLE bank.entry SET (autovacuum_enabled = off)",
    "VACUUM FULL bank.entry",
)
# Each changes a value on the way there and back.
UNDONE = {
    "a scale": ("amount TYPE numeric(12,0)", "amount TYPE numeric(12,2)"),
    "a length": ("memo TYPE varchar(3) USING left(memo, 3)", "memo TYPE text"),
    "the same type, computed again": ("memo TYPE text USING memo || '!'",),
}
Look = Callable[[], None]


class Kept:
    """SeenOrigins in memory, shared by the guards of a test as by processes."""

    def __init__(self) -> None:
        self.seen: dict[tuple[str, str], str] = {}
        self.is_away = False

    def read(self, planned: Sequence[Table]) -> Mapping[str, str]:
        self._require()
        return {one.name: self.seen[one.name, one.origin] for one in planned if (one.name, one.origin) in self.seen}

    def keep(self, planned: Table, seen: str) -> None:
        self._require()
        self.seen[planned.name, planned.origin] = seen

    def close(self) -> None: ...

    def _require(self) -> None:
        if self.is_away:
            raise TransientError("the platform database is away")


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    with postgres_database(SOURCE.database) as connection, known_by_id(connection, "guarded", "postgres"):
        yield connection


@pytest.fixture
def sql(database: Connection) -> Iterator[Session]:
    with postgres(database) as session:
        session.execute("DROP SCHEMA IF EXISTS bank CASCADE; CREATE SCHEMA bank")
        for statement in TABLE:
            session.execute(statement.encode())
        yield session


@pytest.fixture
def planned(sql: Session) -> Table:
    (table,) = read_catalogue(sql, SOURCE, ["entry"])
    return table


def look(guard: CatalogueGuard, sql: Session) -> None:
    """As a stream does before it commits what was written up to now."""
    row = sql.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone()
    assert row is not None
    guard.verify(PostgresPosition(row[0]))


def written(sql: Session, number: int) -> None:
    sql.execute("INSERT INTO bank.entry VALUES (%s, 1, 'w')", (number,))


@pytest.mark.parametrize("process", ["one process", "a process for each look"])
def test_maintenance_of_many_weeks_stops_no_stream(sql: Session, planned: Table, process: str) -> None:
    kept = Kept()
    guard = CatalogueGuard(SOURCE, [planned], kept)
    for number, statement in enumerate(MAINTENANCE, 10):
        sql.execute(statement.encode())
        written(sql, number)
        look(guard, sql)
        if process != "one process":
            guard.close()
            guard = CatalogueGuard(SOURCE, [planned], kept)
    guard.close()


@pytest.mark.parametrize("undone", UNDONE)
@pytest.mark.parametrize("looked", [True, False], ids=["behind maintenance", "at once"])
def test_an_alteration_that_was_undone_stops_the_stream_whatever_was_done_before(
    sql: Session, planned: Table, undone: str, *, looked: bool
) -> None:
    """The planted wrong value: what stands there looks as it did, and is another one."""
    before = sql.execute("SELECT * FROM bank.entry ORDER BY id").fetchall()
    kept = Kept()
    with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard:
        for number, statement in enumerate(MAINTENANCE if looked else (), 10):
            sql.execute(statement.encode())
            written(sql, number)
            look(guard, sql)
        for change in UNDONE[undone]:
            sql.execute(f"ALTER TABLE bank.entry ALTER {change}".encode())
        assert sql.execute("SELECT * FROM bank.entry WHERE id < 10 ORDER BY id").fetchall() != before
        written(sql, 100)
        with pytest.raises(SchemaConflict, match="was altered and its table rewritten"):
            look(guard, sql)
    # It stays so, also for the next process and after a rewrite that hides which one was the last.
    sql.execute("VACUUM FULL bank.entry")
    with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard, pytest.raises(SchemaConflict):
        look(guard, sql)


def test_both_between_two_looks_cannot_be_distinguished_from_an_alteration(sql: Session, planned: Table) -> None:
    with closing(CatalogueGuard(SOURCE, [planned], Kept())) as guard:
        look(guard, sql)
        sql.execute("ALTER TABLE bank.entry ALTER memo SET DEFAULT 'none'")
        sql.execute("VACUUM FULL bank.entry")
        with pytest.raises(SchemaConflict, match="was altered and its table rewritten"):
            look(guard, sql)


def test_a_stream_whose_platform_database_is_away_goes_on_and_does_not_take_it_for_an_alteration(
    sql: Session, planned: Table
) -> None:
    kept = Kept()
    kept.is_away = True
    with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard:
        for statement in ("ALTER TABLE bank.entry ALTER memo SET DEFAULT 'none'", "VACUUM FULL bank.entry"):
            sql.execute(statement.encode())
            look(guard, sql)
    with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard, pytest.raises(TransientError):
        look(guard, sql)


def test_a_label_that_came_since_the_load_is_known_from_then_on(sql: Session) -> None:
    sql.execute("CREATE TYPE bank.mood AS ENUM ('glad'); ALTER TABLE bank.entry ADD felt bank.mood")
    (planned,) = read_catalogue(sql, SOURCE, ["entry"])
    with closing(CatalogueGuard(SOURCE, [planned], Kept())) as guard:
        sql.execute("ALTER TYPE bank.mood ADD VALUE 'calm'")
        look(guard, sql)
        sql.execute("ALTER TYPE bank.mood RENAME VALUE 'calm' TO 'still'")
        sql.execute("INSERT INTO bank.entry VALUES (50, 1, 'w', 'still')")
        sql.execute("ALTER TYPE bank.mood RENAME VALUE 'still' TO 'calm'")
        with pytest.raises(SchemaConflict, match="label 'calm' of entry.felt was renamed for a while"):
            look(guard, sql)


# ---- what a heartbeat says (ADR 37) --------------------------------------------------------------------------------


def fingerprints_of(payload: CataloguePayload) -> CatalogueFingerprints:
    fingerprints = fingerprints_in(payload.payload({"entry", "gone"}))
    assert fingerprints is not None
    return fingerprints


def test_a_heartbeat_proves_a_log_whose_tables_nobody_has_touched(sql: Session, planned: Table) -> None:
    payload = CataloguePayload(SOURCE)
    with closing(CatalogueGuard(SOURCE, [planned], Kept())) as guard:
        written(sql, 10)
        (before,) = sql.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone() or (0,)
        fingerprints = fingerprints_of(payload)
        assert fingerprints.through.lsn >= before  # type: ignore[union-attr]
        assert guard.is_as_planned(fingerprints.tables)
        sql.execute("ANALYZE bank.entry")
        sql.execute("VACUUM bank.entry")
        assert fingerprints_of(payload).tables == fingerprints.tables
        assert not guard.is_as_planned({})


@pytest.mark.parametrize("undone", UNDONE)
def test_a_heartbeat_behind_an_alteration_proves_nothing_also_where_it_was_undone(
    sql: Session, planned: Table, undone: str
) -> None:
    payload = CataloguePayload(SOURCE)
    fingerprints_of(payload)
    for change in UNDONE[undone]:
        sql.execute(f"ALTER TABLE bank.entry ALTER {change}".encode())
        with closing(CatalogueGuard(SOURCE, [planned], Kept())) as guard:
            assert not guard.is_as_planned(fingerprints_of(payload).tables)
    sql.execute("DROP TABLE bank.entry")
    assert fingerprints_of(payload).tables == {}


def test_maintenance_that_the_stream_has_seen_is_proven_by_the_next_heartbeat(sql: Session, planned: Table) -> None:
    """What a worker has seen, the next one asks of the platform database."""
    kept, payload = Kept(), CataloguePayload(SOURCE)
    for number, statement in enumerate(MAINTENANCE[:4], 10):
        sql.execute(statement.encode())
        written(sql, number)
        fingerprints = fingerprints_of(payload)
        with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard:
            look(guard, sql)
            assert guard.is_as_planned(fingerprints.tables)
        with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard:
            assert guard.is_as_planned(fingerprints.tables)
    kept.is_away = True
    with closing(CatalogueGuard(SOURCE, [planned], kept)) as guard:
        assert not guard.is_as_planned(fingerprints.tables)


def test_a_heartbeat_does_not_wait_for_who_alters_a_table(sql: Session, planned: Table, database: Connection) -> None:
    with postgres(database) as altering, altering.transaction():
        altering.execute("ALTER TABLE bank.entry ALTER memo SET DEFAULT 'none'")
        began = time.monotonic()
        with pytest.raises(TransientError):
            fingerprints_of(CataloguePayload(SOURCE))
        assert time.monotonic() - began < 5


def test_a_login_whose_transactions_keep_one_snapshot_sees_an_alteration_all_the_same(
    sql: Session, planned: Table, database: Connection
) -> None:
    """The guard waits for who alters a table; what it reads then must be of after the wait."""
    one_snapshot = f'ALTER ROLE "{database.login}" {{}} default_transaction_isolation'
    sql.execute((one_snapshot.format("SET") + " = 'repeatable read'").encode())
    try:
        with (
            closing(CatalogueGuard(SOURCE, [planned], Kept())) as guard,
            postgres(database) as altering,
            ThreadPoolExecutor(1) as pool,
        ):
            altering.execute("BEGIN; ALTER TABLE bank.entry ALTER amount TYPE numeric(12,4)")
            asked = pool.submit(look, guard, sql)
            waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'bank.entry'::regclass"
            wait_until(lambda: altering.execute(waits).fetchone() == (1,), timeout_s=10, what="the guard to wait")
            altering.execute("COMMIT")
            with pytest.raises(SchemaConflict, match="is now numeric"):
                asked.result(timeout=30)
    finally:
        sql.execute(one_snapshot.format("RESET").encode())


def test_a_question_that_is_not_answered_in_time_ends_as_if_the_connection_were_lost(database: Connection) -> None:
    began = time.monotonic()
    with (
        closing(open_session(database)) as session,
        pytest.raises(TransientError),
        translated(database),
        session.watch.limited(0.3),
    ):
        session.execute("SELECT pg_sleep(20)")
    assert time.monotonic() - began < 5
