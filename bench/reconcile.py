"""Reconciliation of one large table, MariaDB with PostgreSQL, against a plain text-hash scan of both sides.

The reference is what one would write by hand: one checksum per side over all rows. It says whether both are equal,
and nothing else. Ours says it per bucket and lists the rows. Both run side by side in one go, both sides at once, on
the servers of the local stack; medians of interleaved rounds.
`./seamline exec python -m bench.reconcile --rows 2000000`
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from seamline.adapters.connections import Connection
from seamline.databases.postgres.read import Relation, open_views
from seamline.databases.postgres.types import column_definitions
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.verdict import Verdict
from seamline.ports import ReadView
from seamline.sources.mariadb.catalogue import read_catalogue
from seamline.sources.mariadb.position import BinlogPosition
from seamline.sources.mariadb.read import MariaDbReadView
from seamline.sources.mariadb.sessions import open_session
from seamline.sync.comparison import Work, compare_tables
from tests.checkout import day_and_commit
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database

POSITION = BinlogPosition("0-1-1")
GOAL = 1.3
VIEWS = 2
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
SELECT COUNT(*), SUM(CAST(CONV(SUBSTR({hash}(
  CONCAT_WS(',', id, account_id, currency, amount, booked_at, memo){bits}), 1, 15), 16, 10) AS UNSIGNED)) FROM entry
"""
POSTGRES_SCAN = "SELECT count(*), sum(('x' || substr({hash}, 1, 15))::bit(60)::bigint) FROM live.entry"
# SHA-256 is what reconciliation hashes with; MD5 is what most people write.
SCANS = {
    "SHA-256": (
        MARIADB_SCAN.format(hash="SHA2", bits=", 256"),
        POSTGRES_SCAN.format(hash="encode(sha256(convert_to(entry::text, 'UTF8')), 'hex')"),
    ),
    "MD5": (MARIADB_SCAN.format(hash="MD5", bits=""), POSTGRES_SCAN.format(hash="md5(entry::text)")),
}
PLANTED = (
    "UPDATE live.entry SET amount = amount + 0.0001 WHERE id = 7",
    "DELETE FROM live.entry WHERE id = 4711",
    "INSERT INTO live.entry VALUES (-1, 1, 'EUR', 1, '2026-01-01', NULL)",
)


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and of processor time in each server's session: foreign load does not change these."""

    clock: float
    source: float
    destination: float

    @property
    def processor(self) -> float:
        return self.source + self.destination


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    chosen = parser.parse_args()
    scans: dict[str, list[Cost]] = {name: [] for name in SCANS}
    ours, planted = [], []
    with mariadb_database("bench_reconcile") as bank, postgres_database("bench_reconcile") as warehouse:
        table = _fill(bank, warehouse, chosen.rows)
        # The first round fills caches.
        for _ in range(chosen.rounds + 1):
            for name, costs in scans.items():
                costs.append(_scan(bank, warehouse, *SCANS[name]))
            ours.append(_ours(bank, warehouse, table, breaks=0))
        with postgres(warehouse) as sql:
            for statement in PLANTED:
                sql.execute(statement)
        for _ in range(chosen.rounds + 1):
            planted.append(_ours(bank, warehouse, table, breaks=3))
    return _report(chosen.rows, {name: costs[1:] for name, costs in scans.items()}, ours[1:], planted[1:])


def _report(rows: int, scans: dict[str, list[Cost]], ours: list[Cost], planted: list[Cost]) -> int:
    print(f"{rows:,} rows, median of {len(ours)} rounds side by side; processor seconds of both servers")
    print(f"{'':38}{'clock':>10}{'':8}{'processor':>10}{'':8}{'MariaDB':>9}{'PostgreSQL':>12}")
    reference = _median(scans["SHA-256"])
    for name, costs in (
        *((f"plain text-hash scan, {hash_}", costs) for hash_, costs in scans.items()),
        ("reconciliation, equal", ours),
        ("reconciliation, three rows differ", planted),
    ):
        one = _median(costs)
        print(
            f"{name:38}{one.clock:>8.2f} s{one.clock / reference.clock:>6.2f} x{one.processor:>8.2f} s"
            f"{one.processor / reference.processor:>6.2f} x{one.source:>7.2f} s{one.destination:>10.2f} s"
        )
    is_met = _median(ours).clock <= GOAL * reference.clock
    print(f"goal: equal within {GOAL} x by the clock: {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def _median(costs: Sequence[Cost]) -> Cost:
    columns = zip(*((cost.clock, cost.source, cost.destination) for cost in costs), strict=True)
    return Cost(*(statistics.median(column) for column in columns))


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


def _scan(bank: Connection, warehouse: Connection, on_source: str, on_destination: str) -> Cost:
    with ExitStack() as stack:
        source = stack.enter_context(closing(mariadb(bank)))
        destination = stack.enter_context(postgres(warehouse))
        # As ours: no JIT. One process, so that its processor time is all there is.
        destination.execute("SET jit = off")
        destination.execute("SET max_parallel_workers_per_gather = 0")

        def read_source() -> None:
            with source.cursor() as cursor:
                cursor.execute(on_source)
                cursor.fetchall()

        def both() -> None:
            with ThreadPoolExecutor(2) as pool:
                one, other = pool.submit(read_source), pool.submit(destination.execute, on_destination)
                one.result()
                other.result()

        return _cost(both, source=[_thread_of(source)], destination=[destination.info.backend_pid])


def _ours(bank: Connection, warehouse: Connection, table: Table, *, breaks: int) -> Cost:
    with ExitStack() as stack:
        sessions = [open_session(bank) for _ in range(VIEWS)]
        source = [
            MariaDbReadView(
                session, database=bank.database, tables=[table], position=POSITION, opened_at=datetime.now(UTC)
            )
            for session in sessions
        ]
        relations = {"entry": Relation("live", "entry")}
        destination = open_views(
            warehouse, tables=[table], relations=relations, count=VIEWS, position_of=lambda _: POSITION
        )
        views: list[ReadView] = [*source, *destination]
        for view in views:
            stack.callback(view.close)
        work = [Work(table, Segment("entry"), Segment("entry"))]

        def compare() -> None:
            (found,) = compare_tables(work, source=source, destination=destination)
            if (found.breaks_total, found.verdict is Verdict.MATCH) != (breaks, breaks == 0):
                raise SystemExit(f"a wrong answer is no benchmark: {found}")

        backends = _backends(warehouse)
        return _cost(compare, source=[_thread_of(session) for session in sessions], destination=backends)


def _backends(warehouse: Connection) -> list[int]:
    with postgres(warehouse) as sql:
        rows = sql.execute(
            "SELECT pid FROM pg_stat_activity WHERE application_name = 'seamline read view'"
            " AND datname = current_database()"
        ).fetchall()
    return [int(row[0]) for row in rows]


def _cost(work: Callable[[], None], *, source: Sequence[int], destination: Sequence[int]) -> Cost:
    before = _processor_s(source), _processor_s(destination)
    start = time.monotonic()
    work()
    clock = time.monotonic() - start
    return Cost(clock, _processor_s(source) - before[0], _processor_s(destination) - before[1])


def _thread_of(session: Any) -> int:
    """The operating system's number of the server's thread for this session."""
    with session.cursor() as cursor:
        cursor.execute("SELECT tid FROM information_schema.processlist WHERE id = connection_id()")
        ((thread,),) = cursor.fetchall()
    return int(thread)


def _processor_s(threads: Sequence[int]) -> float:
    """User and system time of these threads. `/proc/<thread>/stat` would give that of their whole process."""
    ticks = 0
    for thread in threads:
        status = Path(f"/proc/{thread}/status").read_text(encoding="utf-8")
        process = next(line.split()[1] for line in status.splitlines() if line.startswith("Tgid:"))
        text = Path(f"/proc/{process}/task/{thread}/stat").read_text(encoding="utf-8")
        fields = text.rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    print(day_and_commit(), flush=True)
    raise SystemExit(main())
