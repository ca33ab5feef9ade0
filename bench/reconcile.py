"""Reconciliation of one large table, MariaDB with PostgreSQL, against a plain text-hash scan of both sides.

The reference is what one would write by hand: one checksum per side over all rows. It tells whether both are equal,
and nothing else. Ours tells it per bucket and lists the rows. Both run side by side in one go, both sides at once, on
the servers of the local stack; medians of interleaved rounds. `python bench/reconcile.py --rows 2000000`
"""

import argparse
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from typing import Any

from seamline.adapters.connections import Connection
from seamline.adapters.mariadb.catalogue import read_catalogue
from seamline.adapters.mariadb.read import MariaDbReadView
from seamline.adapters.mariadb.sessions import open_session
from seamline.adapters.postgres.read import Relation, open_views
from seamline.adapters.postgres.types import column_definitions
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.position import BinlogPosition
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.sync.comparison import Work, compare_tables
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database

POSITION = BinlogPosition("0-1-1")
GOAL = 1.3
MARIADB_TABLE = """
CREATE TABLE entry (
  id BIGINT NOT NULL PRIMARY KEY, account_id BIGINT NOT NULL, currency CHAR(3) NOT NULL,
  amount DECIMAL(20,4) NOT NULL, booked_at TIMESTAMP(6) NOT NULL, memo VARCHAR(140) NULL)
"""
MARIADB_ROWS = """
INSERT INTO entry SELECT seq, seq MOD 1000, ELT(seq MOD 3 + 1, 'EUR', 'USD', 'CNY'), (seq MOD 1000003) * 1.25 - 600000,
  TIMESTAMP'2026-01-01 00:00:00.123456' + INTERVAL seq SECOND, IF(seq MOD 5 = 0, NULL, CONCAT('transfer ', seq))
FROM seq_{first}_to_{last}
"""
POSTGRES_ROWS = """
INSERT INTO live.entry SELECT n, n % 1000, (ARRAY['EUR', 'USD', 'CNY'])[n % 3 + 1], (n % 1000003) * 1.25 - 600000,
  timestamptz '2026-01-01 00:00:00.123456+00' + n * interval '1 second',
  CASE WHEN n % 5 = 0 THEN NULL ELSE 'transfer ' || n END FROM generate_series(1, {rows}) n
"""
MARIADB_SCAN = """
SELECT COUNT(*), SUM(CAST(CONV(SUBSTR(MD5(
  CONCAT_WS(',', id, account_id, currency, amount, booked_at, memo)), 1, 15), 16, 10) AS UNSIGNED)) FROM entry
"""
POSTGRES_SCAN = "SELECT count(*), sum(('x' || substr(md5(entry::text), 1, 15))::bit(60)::bigint) FROM live.entry"
PLANTED = (
    "UPDATE live.entry SET amount = amount + 0.0001 WHERE id = 7",
    "DELETE FROM live.entry WHERE id = 4711",
    "INSERT INTO live.entry VALUES (-1, 1, 'EUR', 1, '2026-01-01', NULL)",
)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    with mariadb_database("bench_reconcile") as bank, postgres_database("bench_reconcile") as warehouse:
        table = _fill(bank, warehouse, chosen.rows)
        equal = lambda: _ours(bank, warehouse, table)  # noqa: E731 - named for the report
        scan = lambda: _scan(bank, warehouse)  # noqa: E731
        scans, ours = _interleaved(scan, equal, chosen.rounds)
        assert equal().verdict is Verdict.MATCH
        with postgres(warehouse) as sql:
            for statement in PLANTED:
                sql.execute(statement)
        planted = [_timed(equal) for _ in range(chosen.rounds)]
        found = equal()
        assert (found.verdict, found.breaks_total) == (Verdict.BREAK, 3), found
    return _tell(chosen.rows, scans, ours, planted)


def _tell(rows: int, scans: Sequence[float], ours: Sequence[float], planted: Sequence[float]) -> int:
    reference, equal, three = (statistics.median(times) for times in (scans, ours, planted))
    print(f"rows                                  {rows:>12,}")
    print(f"plain text-hash scan of both sides    {reference:>10.2f} s")
    print(f"reconciliation, equal                 {equal:>10.2f} s   {equal / reference:.2f} x")
    print(f"reconciliation, three rows differ     {three:>10.2f} s   {three / reference:.2f} x")
    print(f"goal: equal within {GOAL} x: {'met' if equal <= GOAL * reference else 'MISSED'}")
    return 0 if equal <= GOAL * reference else 1


def _fill(bank: Connection, warehouse: Connection, rows: int) -> Table:
    with closing(mariadb(bank)) as session, session.cursor() as cursor:
        cursor.execute(MARIADB_TABLE)
        for first in range(1, rows + 1, 250_000):
            cursor.execute(MARIADB_ROWS.format(first=first, last=min(first + 249_999, rows)))
        cursor.execute("ANALYZE TABLE entry")
    with closing(open_session(bank)) as session:
        (table,) = read_catalogue(session, bank.database, ["entry"])
    with postgres(warehouse) as sql:
        sql.execute("CREATE SCHEMA live")
        sql.execute(f"CREATE TABLE live.entry ({column_definitions(table)})")
        sql.execute(POSTGRES_ROWS.format(rows=rows))
        sql.execute("ALTER TABLE live.entry ADD PRIMARY KEY (id)")
        sql.execute("VACUUM ANALYZE live.entry")
    return table


def _interleaved(one: Callable[[], Any], other: Callable[[], Any], rounds: int) -> tuple[list[float], list[float]]:
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds + 1):
        times[0].append(_timed(one))
        times[1].append(_timed(other))
    # The first round of each fills caches.
    return times[0][1:], times[1][1:]


def _timed(work: Callable[[], Any]) -> float:
    start = time.monotonic()
    work()
    return time.monotonic() - start


def _scan(bank: Connection, warehouse: Connection) -> None:
    def source() -> Any:
        with closing(mariadb(bank)) as session, session.cursor() as cursor:
            cursor.execute(MARIADB_SCAN)
            return cursor.fetchall()

    def destination() -> Any:
        with postgres(warehouse) as sql:
            sql.execute("SET jit = off")
            return sql.execute(POSTGRES_SCAN).fetchall()

    with ThreadPoolExecutor(2) as pool:
        for future in [pool.submit(source), pool.submit(destination)]:
            future.result()


def _ours(bank: Connection, warehouse: Connection, table: Table) -> TableVerdict:
    with _views(bank, warehouse, table) as (source, destination):
        work = [Work(table, Segment("entry"), Segment("entry"))]
        (verdict,) = compare_tables(work, source=[source], destination=[destination])
    return verdict


@contextmanager
def _views(bank: Connection, warehouse: Connection, table: Table) -> Iterator[Any]:
    with ExitStack() as stack:
        session = open_session(bank)
        source = MariaDbReadView(
            session, database=bank.database, tables=[table], position=POSITION, opened_at=datetime.now(UTC)
        )
        stack.enter_context(closing(source))
        relations = {"entry": Relation("live", "entry")}
        (destination,) = open_views(
            warehouse, tables=[table], relations=relations, count=1, position_of=lambda _: POSITION
        )
        yield source, stack.enter_context(closing(destination))


if __name__ == "__main__":
    raise SystemExit(main())
