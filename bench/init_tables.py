"""`./seamline init` on a database of 1,000 tables, in PostgreSQL and MariaDB: the time until the files are there.

Empty tables suffice: each is listed, described, asked for dates and amounts, and written. Each round writes into a
folder of its own. Goal: at most 30 s.

On the servers of the local stack: `./seamline exec python -m bench.init_tables --tables 1000`
"""

import argparse
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from unittest.mock import patch

from seamline.adapters.connections import Connection
from seamline.cli.main import main as seamline
from seamline.plan.compile import compile_plan
from seamline.spec.load import load_sync
from tests.integration.databases import mariadb, mariadb_database, postgres, postgres_database
from tests.integration.known import known_by_id

NAME = "bench_init"
GOAL_S = 30.0
TABLE = (
    "CREATE TABLE t{number:04} (id bigint PRIMARY KEY, account_id bigint NOT NULL, booked_on date NOT NULL,"
    " amount decimal(20,4) NOT NULL, currency varchar(3) NOT NULL, memo varchar(140))"
)


def fill(root: Connection, kind: str, tables: int) -> None:
    statements = [TABLE.format(number=number) for number in range(tables)]
    if kind == "postgres":
        with closing(postgres(root)) as session:
            for statement in statements:
                session.execute(statement)
        return
    with closing(mariadb(root)) as opened, opened.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def timed(kind: str, tables: int) -> float:
    made = postgres_database if kind == "postgres" else mariadb_database
    with (
        postgres_database(f"{NAME}_dwh") as warehouse,
        known_by_id(warehouse, "bench_dwh", "postgres"),
        made(NAME) as root,
        known_by_id(root, "bench_core", "postgres" if kind == "postgres" else "mysql"),
        tempfile.TemporaryDirectory() as place,
        patch.dict("os.environ", {"SEAMLINE_DECLARATIONS": place}),
    ):
        fill(root, kind, tables)
        began = time.monotonic()
        code = seamline(["init", "many", "--from", "bench_core", "--to", "bench_dwh", "--yes"])
        took = time.monotonic() - began
        carried = len(compile_plan(load_sync(Path(place) / "syncs" / "many.yaml"), "many").tables)
    if code or carried != tables:
        sys.exit(f"{kind}: ended with {code}, {carried} of {tables} tables are carried")
    return took


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    worst = 0.0
    for kind in ("postgres", "mariadb"):
        for _ in range(args.rounds):
            took = timed(kind, args.tables)
            worst = max(worst, took)
            print(f"{kind}: init of {args.tables:,} tables took {took:.1f} s")
    print(f"{'reached' if worst <= GOAL_S else 'MISSED'}: at most {GOAL_S:g} s, took {worst:.1f} s")
    return 0 if worst <= GOAL_S else 1


if __name__ == "__main__":
    sys.exit(main())
