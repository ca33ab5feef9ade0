"""Where a stack shows one of its secrets: logs, command lines, and every row of the databases that it keeps itself."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psycopg
from psycopg import sql

from seamline.adapters import connections
from seamline.stack import credentials, leftovers
from seamline.stack.layout import Layout

# Its own state and Airflow's: plans, runs, XComs, rendered fields.
DATABASES = ("seamline", "airflow")
_NO_SECRETS = frozenset({"kafka_cluster_id"})


def leaked_secrets(layout: Layout) -> list[str]:
    """Each place with the name of the secret that it shows."""
    made = credentials.load_or_make(layout)
    known = {name: value for name, value in made.items() if name not in _NO_SECRETS}
    return [*_in_files(layout, known), *_in_command_lines(layout, known), *_in_databases(known)]


def _in_files(layout: Layout, known: dict[str, str]) -> Iterator[str]:
    looked_at = 0
    for folder in (layout.logs, layout.airflow / "logs", layout.supervisor):
        for path in folder.rglob("*"):
            if path.is_file():
                looked_at += 1
                yield from _leaks(str(path), _text(path), known)
    assert looked_at > 20, "there are hardly any logs: was this the right folder?"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace")


def _in_command_lines(layout: Layout, known: dict[str, str]) -> Iterator[str]:
    found = leftovers.processes(layout)
    assert len(found) > 5, "the stack hardly runs"
    for process in found:
        try:
            yield from _leaks(f"command line of {process.program}", _text(Path(f"/proc/{process.pid}/cmdline")), known)
        except FileNotFoundError:
            continue


def _in_databases(known: dict[str, str]) -> Iterator[str]:
    root = connections.resolve("postgres_root")
    for database in DATABASES:
        at = replace(root, database=database)
        with psycopg.connect(
            host=at.host, port=at.port, user=at.login, password=at.password, dbname=at.database
        ) as session:
            tables = session.execute(
                "SELECT schemaname, tablename FROM pg_tables"
                " WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
            ).fetchall()
            assert len(tables) > 10, f"database {database} holds hardly any tables"
            for schema, table in tables:
                statement = sql.SQL("SELECT t::text FROM {} t").format(sql.Identifier(schema, table))
                for (row,) in session.execute(statement):
                    yield from _leaks(f"{database}.{schema}.{table}", row, known)


def _leaks(place: str, text: str, known: dict[str, str]) -> Iterator[str]:
    for name, value in known.items():
        if value in text:
            yield f"{place}: {name}"
