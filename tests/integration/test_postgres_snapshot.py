"""Snapshots of a PostgreSQL source under writers: what is staged is what the log says, and the rest comes by the log."""

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from functools import partial
from typing import Any

import psycopg
import pytest

from seamline.adapters.connections import Connection
from seamline.adapters.postgres_source import bulk, sessions
from seamline.adapters.postgres_source.client import Session, role
from seamline.adapters.postgres_source.sessions import (
    close_all,
    join_snapshot,
    open_views,
    views_at_one_snapshot,
)
from seamline.domain.cutover import is_covered
from seamline.domain.digest import Segment
from seamline.domain.errors import InvariantViolated, TransientError
from seamline.domain.position import PostgresPosition, position_from_json
from seamline.plan.model import DestinationPlan
from seamline.ports import Marker
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.bank_writers import in_postgres, writing
from tests.integration.captured import Replayed, apply_unit
from tests.integration.captured_postgres import ACCOUNT, AUDIT, FULL, PostgresCaptured, captured_postgres
from tests.integration.databases import postgres, postgres_database
from tests.integration.known import known_by_id
from tests.integration.postgres_kinds import CASES, TYPES, create_table
from tests.integration.postgres_kinds import rows as kinds_rows
from tests.integration.snapshot_run import (
    Records,
    Rows,
    run_of,
    snapshot_amid,
    staged_as_the_log_says,
    staged_names,
    tools_of,
    units_of,
)
from tests.waiting import wait_until

ROUNDS = 12
ADDED_ROUNDS = 6
WRITERS = 6
TABLES = ("account", "audit")
WAREHOUSE = DestinationPlan("warehouse", "postgres", "snap_pg_warehouse", "bank")
# Each test's writers make keys of their own.
FIRST_IDS = itertools.count(1, 1_000_000)
NUMBERS = itertools.count()
busy = partial(writing, session_of=in_postgres, count=WRITERS)


@pytest.fixture(scope="module")
def bank(stack: RunningStack) -> Iterator[PostgresCaptured]:
    create = (ACCOUNT, AUDIT, FULL, *TYPES, create_table("kinds", key="id int PRIMARY KEY, "))
    with captured_postgres(
        "snap_pg", create=create, tables=(*TABLES, "kinds"), destinations=(WAREHOUSE,)
    ) as one:
        one.ensure(one.with_tables(*TABLES, "kinds"))
        yield one


@pytest.fixture(scope="module")
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    with (
        postgres_database("snap_pg_warehouse") as connection,
        known_by_id(connection, WAREHOUSE.connection, "postgres"),
    ):
        yield connection


@pytest.fixture(autouse=True)
def small_writers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many rounds share one database: its transactions stay small enough that it does."""
    monkeypatch.setattr("tests.integration.bank_writers._LARGE", 300)


@pytest.fixture(autouse=True)
def no_slot_is_left(bank: PostgresCaptured) -> Iterator[None]:
    yield
    wait_until(lambda: not temporary_slots(bank), timeout_s=10, what="no temporary slot")


def temporary_slots(bank: PostgresCaptured) -> list[str]:
    with closing(bank.session()) as session:
        rows = session.execute("SELECT slot_name FROM pg_replication_slots WHERE temporary").fetchall()
    return [str(name) for (name,) in rows]


@pytest.fixture
def later(bank: PostgresCaptured) -> str:
    """A keyed table that is not published."""
    name = f"later_{next(NUMBERS)}"
    bank.execute(f"CREATE TABLE {name} (id bigint PRIMARY KEY, a int, memo text)")
    return name


@pytest.fixture
def three_rows(bank: PostgresCaptured, later: str) -> str:
    """The same with three rows, for the reader to read."""
    grant_reading(bank, later)
    bank.execute(f"INSERT INTO {later} VALUES (1, 1, 'a'), (2, 2, 'b'), (3, 3, 'c')")
    return later


def grant_reading(bank: PostgresCaptured, table: str) -> None:
    logins = ", ".join(f'"{role(bank.source_plan, one).login}"' for one in (bank.source_plan.reader, bank.source_plan.capture))
    bank.execute(f"GRANT SELECT ON {table} TO {logins}")


def last_marker(bank: PostgresCaptured) -> str:
    marker = Marker(id=f"last-{next(NUMBERS)}-", kind="heartbeat")
    bank.source.commit_marker(marker)
    return marker.id


def continues_to_the_source(
    bank: PostgresCaptured, snapshot: Mapping[str, Any], staged: Rows, *, keyed: Sequence[str]
) -> None:
    """Staged rows and the log behind their position give what the source holds now: nothing lost, nothing twice.

    What the log says of keyed rows *before* the position must be in the staged rows, as far as the log knows them.
    """
    position = position_from_json(snapshot["position"])
    state = Replayed({table: {key_of(row): row for row in staged[table]} for table in keyed})
    state.keyless = {table: Counter(rows) for table, rows in staged.items() if table not in keyed}
    told: dict[tuple[str, bytes], tuple[Any, ...] | None] = {}
    for end, unit, rows in units_of(bank, last_marker(bank)):
        assert (end.position.lsn <= position.lsn) == is_covered(unit, position), "a snapshot is a prefix of the log"
        mine = [row for row in rows if row.table in staged]
        if is_covered(unit, position):
            told |= {(r.table, r.key): tuple(json.loads(r.after).values()) if r.after else None for r in mine if r.key}
            continue
        for row in mine:
            assert row.op != "c" or row.key not in state.keyed.get(row.table, {}), f"{row.key!r} comes twice"
            apply_unit(state, [row])
    for (table, key), row in told.items():
        assert key in state.keyed[table] or row is None or key_of(row) not in {key_of(one) for one in ()}
    for table in staged:
        assert state.holds(table) == sorted(bank.rows(table), key=repr), table


def key_of(row: tuple[Any, ...]) -> bytes:
    return json.dumps({"id": row[0]}, separators=(",", ":")).encode()
