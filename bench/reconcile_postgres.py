"""Reconciliation of one large table between two databases of PostgreSQL, beside a plain scan and two peers.

The reference is one `count(*), sum(hash(row::text))` per side, both sides at once: it says whether both are equal and
nothing else. The peers are reladiff and Google's data validation tool (rows by hash), each as a command in an
environment of its own (`bench/reladiff.txt`, `bench/data_validation.txt`), which the first run installs. Ours and the
peers run as processes, so that the memory of each client is known. Every one must call equal tables equal, and name the
three rows that are changed then; who does not is shown with what it said. Rounds are interleaved.
Goals: ours at most 1.0 x the scan by SHA-256, 3 x as fast as reladiff, 10 x as fast as the validation tool, 150 MB.

On the servers of the local stack: `./seamline exec python -m bench.reconcile_postgres --rows 10000000`
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from seamline import settings
from seamline.adapters.connections import Connection
from seamline.databases.postgres.read import Relation, open_views
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.sources.postgres.position import PostgresPosition
from seamline.sync.comparison import Work, compare_tables
from tests.checkout import day_and_commit
from tests.integration.databases import postgres, postgres_database

NAMES = ("bench_proof_source", "bench_proof_destination")
VIEWS = 2
BREAKS = 3
MEMORY_MB = 150
DEFINITION = """
CREATE SCHEMA live;
CREATE TABLE live.entry (id bigint NOT NULL, account_id bigint NOT NULL, currency varchar(3) NOT NULL,
  amount numeric(20,4) NOT NULL, booked_at timestamptz NOT NULL, memo varchar(140))
"""
ROWS = """
INSERT INTO live.entry SELECT n, n % 1000, (ARRAY['EUR', 'USD', 'CNY'])[n % 3 + 1], (n % 1000003) * 1.25 - 600000,
  timestamptz '2026-01-01 00:00:00.123456+00' + n * interval '1 second',
  CASE WHEN n % 5 = 0 THEN NULL ELSE 'transfer ' || n END FROM generate_series(1, {rows}) n
"""
TABLE = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("account_id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("currency", Kind.STRING, "varchar(3)", nullable=False, length=3),
        Column("amount", Kind.DECIMAL, "numeric(20,4)", nullable=False, length=20, scale=4),
        Column("booked_at", Kind.INSTANT, "timestamptz", nullable=False, precision=6),
        Column("memo", Kind.STRING, "varchar(140)", length=140),
    ),
    ("id",),
)
SCANS = {
    "scan by SHA-256": "encode(sha256(convert_to(entry::text, 'UTF8')), 'hex')",
    "scan by MD5": "md5(entry::text)",
}
PLANTED = (
    "UPDATE live.entry SET amount = amount + 0.0001 WHERE id = 7",
    "DELETE FROM live.entry WHERE id = 4711",
    "INSERT INTO live.entry VALUES (-1, 1, 'EUR', 1, '2026-01-01', NULL)",
)


# Each row that differs is given once for each side that has it.
_RELADIFF = """
import json, sys
from reladiff import connect_to_table, diff_tables
one, other = (connect_to_table(side, ("live", "entry"), "id", thread_count=2) for side in json.load(sys.stdin))
columns = ("account_id", "currency", "amount", "booked_at", "memo")
found = diff_tables(one, other, extra_columns=columns, max_threadpool_size=2, skip_sort_results=True)
print(len({row[0] for _, row in found}))
"""


@dataclass(frozen=True, slots=True)
class Cost:
    """`differing`: how many rows it says differ."""

    clock: float
    memory_mb: float
    differing: int


Way = Callable[[], Cost]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--without", nargs="*", default=[], help="peers to leave out: reladiff, data_validation")
    parser.add_argument("--compare", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.compare:
        return _compare(*(Connection(**side) for side in json.load(sys.stdin)))
    with ExitStack() as ends:
        source, destination = (ends.enter_context(postgres_database(name)) for name in NAMES)
        for one in (source, destination):
            _fill(one, chosen.rows)
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory()))
        ways = _ways(source, destination, folder, chosen.without)
        equal = _rounds(ways, chosen.rounds)
        with postgres(destination) as sql:
            for statement in PLANTED:
                sql.execute(statement)
        planted = _rounds({name: way for name, way in ways.items() if name not in SCANS}, 1)
    return _report(chosen.rows, equal, planted)


def _rounds(ways: dict[str, Way], rounds: int) -> dict[str, list[Cost]]:
    """One more is run first, for the caches of the servers."""
    found: dict[str, list[Cost]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, way in ways.items():
            cost = way()
            print(f"  round {number}: {name:22}{cost.clock:>9.2f} s", flush=True)
            if number:
                found[name].append(cost)
    return found


def _report(rows: int, equal: dict[str, list[Cost]], planted: dict[str, list[Cost]]) -> int:
    print(f"{rows:,} rows, PostgreSQL with PostgreSQL, medians of {len(equal['ours'])} interleaved rounds")
    clock = {name: statistics.median(cost.clock for cost in costs) for name, costs in equal.items()}
    memory = {name: max(cost.memory_mb for cost in costs) for name, costs in equal.items()}
    reference = clock["scan by SHA-256"]
    for name, costs in equal.items():
        wrong = {cost.differing for cost in costs} - {0}
        found = "" if name in SCANS else f"; {planted[name][0].differing} of {BREAKS} planted rows"
        said = f"; WRONG: called equal tables different ({wrong})" if wrong else ""
        client = f"{memory[name]:>8.0f} MB" if memory[name] else f"{'–':>11}"
        print(f"{name:24}{clock[name]:>9.2f} s{clock[name] / reference:>7.2f} x{client}{found}{said}")
    goals = {
        "ours within 1.0 x the scan": clock["ours"] <= reference,
        f"client within {MEMORY_MB} MB": memory["ours"] <= MEMORY_MB,
        "ours right": planted["ours"][0].differing == BREAKS and not any(cost.differing for cost in equal["ours"]),
    }
    for peer, times in (("reladiff", 3), ("data_validation", 10)):
        if peer in clock:
            goals[f"{times} x as fast as {peer} ({clock[peer] / clock['ours']:.1f} x)"] = (
                clock[peer] >= times * clock["ours"]
            )
    for goal, is_met in goals.items():
        print(f"goal: {goal}: {'met' if is_met else 'MISSED'}")
    return 0 if all(goals.values()) else 1


def _fill(database: Connection, rows: int) -> None:
    with postgres(database) as sql:
        sql.execute(DEFINITION)
        sql.execute(ROWS.format(rows=rows))
        sql.execute("ALTER TABLE live.entry ADD PRIMARY KEY (id)")
        sql.execute("VACUUM ANALYZE live.entry")


# ---- ways ----------------------------------------------------------------------------------------------------------


def _ways(source: Connection, destination: Connection, folder: Path, without: Sequence[str]) -> dict[str, Way]:
    ways: dict[str, Way] = {name: partial(_scan, source, destination, text) for name, text in SCANS.items()}
    ways["ours"] = lambda: _ours(source, destination)
    if "reladiff" not in without:
        ways["reladiff"] = _reladiff(source, destination)
    if "data_validation" not in without:
        ways["data_validation"] = _data_validation(source, destination, folder)
    return ways


def _scan(source: Connection, destination: Connection, hash_text: str) -> Cost:
    statement = f"SELECT count(*), sum(('x' || substr({hash_text}, 1, 15))::bit(60)::bigint) FROM live.entry"

    def one(database: Connection) -> object:
        with postgres(database) as sql:
            # As ours: one process per side, without the compiler.
            sql.execute("SET jit = off")
            sql.execute("SET max_parallel_workers_per_gather = 0")
            return sql.execute(statement).fetchone()

    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:
        sums = list(pool.map(one, (source, destination)))
    return Cost(time.monotonic() - began, 0, int(sums[0] != sums[1]))


def _ours(source: Connection, destination: Connection) -> Cost:
    names = ("connection_id", "kind", "host", "port", "login", "password", "database")
    sides = [{name: getattr(one, name) for name in names} for one in (source, destination)]
    command = [sys.executable, "-m", "bench.reconcile_postgres", "--compare"]
    _, memory, text = _run(command, given=json.dumps(sides))
    # The comparison alone: in the product it runs in a process that is up.
    answer = json.loads(text.splitlines()[-1])
    return Cost(answer["seconds"], memory, answer["differing"])


def _compare(source: Connection, destination: Connection) -> int:
    relations = {"entry": Relation("live", "entry")}
    with ExitStack() as ends:
        source_views, destination_views = (
            open_views(one, tables=[TABLE], relations=relations, count=VIEWS, position_of=lambda _: PostgresPosition(0))
            for one in (source, destination)
        )
        for view in (*source_views, *destination_views):
            ends.callback(view.close)
        began = time.monotonic()
        work = [Work(TABLE, Segment("entry"), Segment("entry"))]
        (found,) = compare_tables(work, source=source_views, destination=destination_views)
        seconds = time.monotonic() - began
    print(json.dumps({"seconds": seconds, "differing": found.breaks_total}))
    return 0


def _reladiff(source: Connection, destination: Connection) -> Way:
    """By its interface for Python: its command wraps long rows."""
    command = [str(_installed("reladiff") / "bin" / "python"), "-c", _RELADIFF]
    sides = [
        {"driver": "postgresql", "user": one.login, "password": one.password, "host": one.host, "port": one.port}
        | {"database": one.database}
        for one in (source, destination)
    ]

    def run() -> Cost:
        clock, memory, text = _run(command, given=json.dumps(sides))
        return Cost(clock, memory, int(text))

    return run


def _data_validation(source: Connection, destination: Connection, folder: Path) -> Way:
    """It prints the rows whose hashes differ, or that one side lacks, as JSON."""
    for name, one in (("a", source), ("b", destination)):
        file = folder / f"{name}.connection.json"
        fields = {"source_type": "Postgres", "host": one.host, "port": one.port, "user": one.login}
        file.write_text(json.dumps({**fields, "password": one.password, "database": one.database}))
        file.chmod(0o600)
    program = str(_installed("data_validation") / "bin" / "data-validation")
    table = ["--tables-list", "live.entry=live.entry", "--primary-keys", "id", "--hash", "*"]
    command = [
        "env",
        f"PSO_DV_CONN_HOME={folder}",
        program,
        "validate",
        "row",
        "--source-conn",
        "a",
        "--target-conn",
        "b",
        *table,
    ]

    def run() -> Cost:
        clock, memory, text = _run([*command, "--filter-status", "fail", "--format", "json"])
        start = text.find("{")
        found = json.loads(text[start:]) if start >= 0 else {}
        return Cost(clock, memory, len(found))

    return run


def _run(command: Sequence[str], *, given: str = "") -> tuple[float, float, str]:
    """Seconds by the clock, the greatest memory of the process in MB, and what it printed. `given`: what it reads."""
    with ExitStack() as ends:
        given_file, out, errors = (ends.enter_context(tempfile.TemporaryFile("w+")) for _ in range(3))
        given_file.write(given)
        given_file.seek(0)
        began = time.monotonic()
        process = subprocess.Popen(command, stdin=given_file, stdout=out, stderr=errors)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        clock = time.monotonic() - began
        out.seek(0)
        errors.seek(0)
        text = out.read()
        if process.returncode:
            raise SystemExit(f"{command[0]} failed: {errors.read()[-2000:]}")
    return clock, used.ru_maxrss / 1024, text


def _installed(peer: str) -> Path:
    """The environment of a peer, made where it is missing."""
    home = settings.load().home / f"bench-{peer}"
    if not (home / "installed").exists():
        print(f"installing {peer} (a few minutes)", flush=True)
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
        packages = Path(__file__).with_name(f"{peer}.txt")
        subprocess.run([home / "bin" / "pip", "install", "--quiet", "--requirement", packages], check=True)
        (home / "installed").touch()
    return home


if __name__ == "__main__":
    if "--compare" not in sys.argv:
        print(day_and_commit(), flush=True)
    raise SystemExit(main())
