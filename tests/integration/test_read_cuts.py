"""Cuts of a real PostgreSQL as Arrow: which is read, what differs, what is refused."""

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres import ledger
from seamline.databases.postgres.client import open_session
from seamline.domain.errors import Refused, SchemaConflict
from seamline.domain.ledger import StreamId
from seamline.domain.position import position_to_json
from seamline.domain.verdict import Verdict
from seamline.kinds.reading import SyncTables, TableChanges
from seamline.sinks.postgres.cut_expiry import PostgresCutExpiry
from seamline.sinks.postgres.cuts import PostgresCuts
from seamline.sinks.postgres.kind import Postgres
from seamline.sources.mariadb.position import BinlogPosition
from tests.integration.cuts_published import DAY, DESTINATION, EARLIER, Place, publish, stage, staged, whole
from tests.integration.cuts_published import sql as sql
from tests.integration.databases import postgres_database
from tests.integration.known import known_by_id

STREAM = StreamId("settlement", "warehouse")
READ = replace(DESTINATION, connection="read_cuts")
SECOND = f"cut_{DAY:%Y_%m_%d}_v2"


@pytest.fixture(scope="module")
def database() -> Iterator[Connection]:
    with postgres_database("read_cuts") as connection, known_by_id(connection, "read_cuts", "postgres"):
        yield connection


@pytest.fixture(params=["copies", "versions"])
def cuts(request: pytest.FixtureRequest, database: Connection, sql: Any) -> Iterator[PostgresCuts]:
    kept = replace(READ, versioned=("entry",) if request.param == "versions" else ())
    with closing(PostgresCuts(kept, open_session(database, application_name="test cuts"))) as opened:
        yield opened


def opened(at: date | str) -> SyncTables:
    return Postgres().open_tables(READ, STREAM, at)


def rows(tables: SyncTables, table: str = "entry") -> list[dict[str, Any]]:
    return tables[table].arrow().sort_by("id").to_pylist()


def test_a_date_is_read_at_its_newest_version_and_what_differs_is_what_the_view_shows(
    cuts: PostgresCuts, sql: Any, database: Connection
) -> None:
    with pytest.raises(Refused, match="has no cut of 2026-03-05"):
        opened(DAY)
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3), "account": stage(sql, "a1", 1)}, day=EARLIER))
    publish(cuts, whole("r2", {"entry": stage(sql, "e2", 5), "account": stage(sql, "a2", 1)}))
    place = stage(sql, "e3", 6)
    sql.execute("UPDATE settlement_stage.e3 SET v = 9 WHERE id IN (1, 6); DELETE FROM settlement_stage.e3 WHERE id = 2")
    broken = whole("r3", {"entry": Place(place.name, 5)})
    entry = replace(broken.tables[0], verdict=Verdict.BREAK)
    publish(cuts, replace(broken, tables=(entry,), left_out={"account": "it was altered"}))

    now = opened(DAY)
    assert (now.cut, {*now}) == (SECOND, {"entry"})
    expected = sql.execute(f"SELECT * FROM settlement_cut.entry_current WHERE cut_business_date = '{DAY}' ORDER BY id")
    assert [(*row.values(),) for row in rows(now)] == [row[:3] for row in expected.fetchall()]
    with pytest.raises(Refused, match="it was altered"):
        now.table("account")
    assert opened("proven").cut == opened(f"cut_{DAY:%Y_%m_%d}_v1").cut, "the second version is a BREAK"
    assert len(rows(opened("proven"))) == 5

    found = TableChanges(opened(EARLIER)["entry"], now["entry"], key=("id",)).arrow().to_pylist()
    shown = sql.execute(
        "SELECT cut_change, id, business_date, v FROM settlement_cut.entry_cut_changes"
        f" WHERE cut_since = '{EARLIER}' AND cut_business_date = '{DAY}'"
    )
    assert sorted((*row.values(),) for row in found) == sorted(shown.fetchall())
    assert {row["cut_change"] for row in found} == {"added", "removed", "changed_from", "changed_to"}

    at_first = opened("proven")["entry"]
    with closing(PostgresCutExpiry(READ, open_session(database, application_name="test expiry"))) as expiry:
        kept, _ = expiry.kept_cuts("settlement")
        expiry.expire("settlement", DAY, [cut for cut in kept if (cut.business_date, cut.version) == (DAY, 1)])
    for read in (at_first.arrow, lambda: opened(f"cut_{DAY:%Y_%m_%d}_v1")):
        with pytest.raises(Refused, match="cut_2026_03_05_v1 of settlement@warehouse has ended"):
            read()
    assert len(rows(now)) == 5


WIDE = """CREATE TABLE settlement_stage.wide (id bigint, small numeric(4,2), big numeric(38,3), free numeric,
 at timestamptz(6), here timestamp(6), day date, memo varchar(9), doc jsonb, uid uuid, raw bytea, clock time(6),
 flag boolean, ratio double precision, span interval, net inet)"""
FULL = """INSERT INTO settlement_stage.wide VALUES (1, -12.34, 12345678901234567890123456789012345.678, 1e40,
 '2026-03-05 23:59:59.999999+01', '1900-01-01 00:00:00.000001', '0001-01-01', 'ü "q", \\n', '{"a": 1}',
 '00000000-0000-0000-0000-00000000002a', '\\x00ff', '24:00:00', true, 0.1, '1 mon 2 days 3 us', '10.0.0.1/8')"""


def test_values_of_every_type_come_exactly_and_what_a_data_frame_has_no_place_for_is_refused_by_its_column(
    cuts: PostgresCuts, sql: Any
) -> None:
    sql.execute(WIDE)
    sql.execute(FULL)
    sql.execute("INSERT INTO settlement_stage.wide (id) VALUES (2)")
    publish(cuts, staged("r1", {"wide": Place("settlement_stage.wide", 2)}))
    first, second = rows(opened(DAY), "wide")
    assert first == {
        "id": 1,
        "small": Decimal("-12.34"),
        "big": Decimal("12345678901234567890123456789012345.678"),
        "free": f"1{'0' * 40}",
        "at": datetime(2026, 3, 5, 22, 59, 59, 999999, UTC),
        "here": datetime(1900, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 (the column has no zone)
        "day": date(1, 1, 1),
        "memo": 'ü "q", \\n',
        "doc": '{"a": 1}',
        "uid": "00000000-0000-0000-0000-00000000002a",
        "raw": b"\x00\xff",
        "clock": 86_400_000_000,
        "flag": True,
        "ratio": 0.1,
        "span": "1m2d3",
        "net": "10.0.0.1/8",
    }
    assert second == {**dict.fromkeys(first), "id": 2}

    for column, value in (("day", "infinity"), ("at", "-infinity"), ("small", "NaN")):
        sql.execute(f"CREATE TABLE settlement_stage.odd (id bigint, {column} {TYPES[column]})")
        sql.execute(f"INSERT INTO settlement_stage.odd VALUES (1, '{value}')")
        publish(cuts, staged(f"odd {column}", {f"odd_{column}": Place("settlement_stage.odd", 1)}))
        with pytest.raises(SchemaConflict, match=f"column {column} "):
            opened(DAY)[f"odd_{column}"].arrow()


TYPES = {"day": "date", "at": "timestamptz(6)", "small": "numeric(4,2)"}


def test_parts_of_a_table_are_read_apart_and_are_together_all_of_it(cuts: PostgresCuts, sql: Any) -> None:
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 250_000, value=3)}))
    table = opened(DAY)["entry"]
    assert table.parts == 3
    parts = [pa.Table.from_batches(table.batches(part=part, of=3), table.schema) for part in range(3)]
    assert [part.num_rows > 80_000 for part in parts] == [True] * 3
    ids = pa.concat_tables(parts)["id"]
    assert sorted(ids.to_pylist()) == list(range(1, 250_001))


def test_live_tables_are_read_while_their_ledger_stands_still_and_refused_once_it_went_on(
    database: Connection, sql: Any
) -> None:
    sql.execute("CREATE SCHEMA settlement; CREATE TABLE settlement.entry (id bigint PRIMARY KEY, v integer)")
    sql.execute("INSERT INTO settlement.entry VALUES (1, 10)")
    with pytest.raises(Refused, match="never published"):
        opened("live")
    with closing(open_session(database, application_name="test ledger")) as session:
        ledger.create_tables(session)
    position = json.dumps(position_to_json(BinlogPosition("0-1-7")))
    sql.execute(
        "INSERT INTO seamline.ledger (stream, topic, topic_id, next_offset, position, epoch)"
        f" VALUES ('{STREAM}', 'log', '1', 7, '{position}', 1)"
    )
    sql.execute(
        "INSERT INTO seamline.boundary (stream, table_name, generation, position, ended_at)"
        f" VALUES ('{STREAM}', 'entry', 1, '{position}', now())"
    )
    tables = opened("live")
    assert (tables.cut, rows(tables)) == ("", [{"id": 1, "v": 10}])
    sql.execute("UPDATE seamline.ledger SET next_offset = 8; UPDATE settlement.entry SET v = 11")
    with pytest.raises(Refused, match="went on") as refused:
        tables["entry"].arrow()
    assert "seamline stream pause settlement warehouse" in refused.value.hint
    assert rows(opened("live")) == [{"id": 1, "v": 11}]
