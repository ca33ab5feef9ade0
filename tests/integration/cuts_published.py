"""Cuts in a database of a test's own, whose fixture is called `database`: what they are staged and published from."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import Any

import psycopg
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres.client import open_session
from seamline.domain.canonical import digest_of, row_text
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import KeyedDigest
from seamline.domain.errors import TransientError
from seamline.domain.staged_cut import CutMode, Published, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.plan.model import DestinationPlan
from seamline.sinks.postgres.cuts import PostgresCuts
from seamline.sources.mariadb.position import BinlogPosition
from tests.integration.databases import postgres

DESTINATION = DestinationPlan("warehouse", "postgres", "warehouse", "settlement")
DAY = date(2026, 3, 5)
EARLIER = date(2026, 3, 4)
STAGED_ENTRY = Table(
    "entry",
    (
        Column("id", Kind.INTEGER, "bigint", length=64),
        Column("business_date", Kind.DATE, "date"),
        Column("v", Kind.INTEGER, "integer", length=32),
    ),
    ("id",),
)


@pytest.fixture
def sql(database: Connection) -> Iterator["psycopg.Connection[Any]"]:
    with postgres(database) as session:
        session.execute(
            "DROP SCHEMA IF EXISTS settlement, settlement_cut, settlement_stage, seamline, mine, mine_cut CASCADE"
        )
        session.execute("CREATE SCHEMA settlement_stage")
        yield session


@pytest.fixture
def cuts(database: Connection, sql: Any) -> Iterator[PostgresCuts]:
    with closing(PostgresCuts(DESTINATION, open_session(database, application_name="test cuts"))) as opened:
        yield opened


@dataclass(frozen=True, slots=True)
class Place:
    name: str
    rows: int = 0


def stage(sql: Any, name: str, rows: int, *, value: int = 0, kind: str = "") -> Place:
    sql.execute(
        f"CREATE {kind} TABLE settlement_stage.{name} (id bigint PRIMARY KEY, business_date date NOT NULL, v integer)"
    )
    sql.execute(
        f"INSERT INTO settlement_stage.{name} SELECT n, '2026-03-05', {value} FROM generate_series(1, {rows}) n"
    )
    return Place(f"settlement_stage.{name}", rows)


def publish(cuts: PostgresCuts, cut: StagedCut, *, signed_by: str = "") -> Published:
    return cuts.publish(cut, definitions={"entry": STAGED_ENTRY}, signed_by=signed_by)


def staged(run: str, tables: dict[str, Place], *, day: date = DAY, verdict: Verdict = Verdict.MATCH) -> StagedCut:
    listed = tuple(StagedTable(table, CutMode.DATE, place.name, place.rows, verdict) for table, place in tables.items())
    return StagedCut(
        run, "settlement", "warehouse", day, BinlogPosition("0-1-7"), datetime(2026, 3, 5, 17, tzinfo=UTC), listed
    )


def whole(run: str, tables: dict[str, Place], *, day: date = DAY) -> StagedCut:
    """As `staged`, of tables that are read whole."""
    cut = staged(run, tables, day=day)
    return replace(cut, tables=tuple(replace(table, mode=CutMode.WHOLE) for table in cut.tables))


def digested(run: str, place: Place, *, day: date = DAY, value: int = 1) -> StagedCut:
    """`whole`, of `STAGED_ENTRY`, with the digest of its rows."""
    held = [row_text(STAGED_ENTRY.columns, [str(n), "2026-03-05", str(value)]) for n in range(1, place.rows + 1)]
    cut = whole(run, {"entry": place}, day=day)
    found = KeyedDigest("key", digest_of(held, run_key="key"))
    return replace(cut, tables=(replace(cut.tables[0], digest=found),))


def one(sql: Any, query: str) -> Any:
    row = sql.execute(query).fetchone()
    return row[0] if row and len(row) == 1 else row


def stop(*_: object) -> None:
    raise TransientError("a reader is at work")
