"""Cuts of a real MariaDB and MySQL as Arrow: which is read, what differs, what is refused."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.kinds.reading import SyncTables, TableChanges
from seamline.sinks.relational.cut_expiry import RelationalCutExpiry
from seamline.sinks.relational.cuts import RelationalCuts
from seamline.sinks.relational.kind import RelationalKind
from seamline.sinks.relational.session import open_session
from tests.integration.cuts_published import DAY, EARLIER, Place, staged, whole
from tests.integration.relational_cuts import DESTINATION, Server, Sql, publish, stage
from tests.integration.relational_cuts import kind as kind
from tests.integration.relational_cuts import server as server
from tests.integration.relational_cuts import sql as sql

STREAM = StreamId("settlement", "ledger_copy")


@pytest.fixture(params=["copies", "versions"])
def cuts(request: pytest.FixtureRequest, server: Server, sql: Sql) -> Iterator[RelationalCuts]:
    kept = replace(DESTINATION, versioned=("entry",) if request.param == "versions" else ())
    dialect = server.kind.dialect
    with closing(RelationalCuts(kept, open_session(server.publisher, dialect), dialect)) as opened:
        yield opened


def rows(tables: SyncTables, table: str = "entry") -> list[dict[str, Any]]:
    return tables[table].arrow().sort_by("id").to_pylist()


def test_a_date_is_read_at_its_newest_version_and_what_differs_is_what_the_view_shows(
    cuts: RelationalCuts, sql: Sql, kind: RelationalKind, server: Server
) -> None:
    def opened(at: date | str) -> SyncTables:
        return kind.open_tables(DESTINATION, STREAM, at)

    with pytest.raises(Refused, match="has no cut of 2026-03-05"):
        opened(DAY)
    publish(cuts, whole("r1", {"entry": stage(sql, "e1", 3)}, day=EARLIER))
    publish(cuts, whole("r2", {"entry": stage(sql, "e2", 5)}))
    place = stage(sql, "e3", 6)
    sql.execute("UPDATE cuts_stage.e3 SET v = 9 WHERE id IN (1, 6)")
    sql.execute("DELETE FROM cuts_stage.e3 WHERE id = 2")
    publish(cuts, replace(whole("r3", {"entry": Place(place.name, 5)}), left_out={"account": "it was altered"}))

    now, first = opened(DAY), opened(f"cut_{DAY:%Y_%m_%d}_v1")
    assert (now.cut, len(rows(first))) == (opened("proven").cut, 5)
    sql.execute("USE cuts_cut")
    shown = sql.execute(f"SELECT * FROM entry_current WHERE cut_business_date = '{DAY}' ORDER BY id")
    assert [(*row.values(),) for row in rows(now)] == [row[:3] for row in shown.fetchall()]
    with pytest.raises(Refused, match="it was altered"):
        now.table("account")
    found = TableChanges(opened(EARLIER)["entry"], now["entry"], key=("id",)).arrow().to_pylist()
    shown = sql.execute(
        "SELECT cut_change, id, business_date, v FROM entry_cut_changes"
        f" WHERE cut_since = '{EARLIER}' AND cut_business_date = '{DAY}'"
    )
    assert sorted((*row.values(),) for row in found) == sorted(shown.fetchall())
    parts = [pa.Table.from_batches(now["entry"].batches(part=part, of=3), now["entry"].schema) for part in range(3)]
    assert pa.concat_tables(parts).sort_by("id").to_pylist() == rows(now)

    session = open_session(server.publisher, server.kind.dialect)
    with closing(RelationalCutExpiry(DESTINATION, session)) as expiry:
        kept, _ = expiry.kept_cuts("settlement")
        expiry.expire("settlement", DAY, [cut for cut in kept if (cut.business_date, cut.version) == (DAY, 1)])
    for read in (first["entry"].arrow, lambda: opened(first.cut)):
        with pytest.raises(Refused, match="cut_2026_03_05_v1 of settlement@ledger_copy has ended"):
            read()


def test_values_of_every_type_come_exactly(server: Server, sql: Sql, kind: RelationalKind) -> None:
    uuid = kind.dialect.uuid
    sql.execute(
        "CREATE TABLE cuts_stage.wide (id bigint PRIMARY KEY, small decimal(4,2), big decimal(38,3),"
        " huge decimal(50,4), at datetime(6), day date, memo varchar(9), raw varbinary(4), clock time(6),"
        " flag boolean, ratio double,"
        f" number bigint unsigned, at_year year, uid {uuid}, doc longtext)"
    )
    sql.execute(
        "INSERT INTO cuts_stage.wide VALUES (1, -12.34, 12345678901234567890123456789012345.678, -1e40,"
        " '1000-01-01 00:00:00.000001', '9999-12-31', 'ü \"q\",', x'00ff', '-838:59:59', true, 0.1,"
        " 18446744073709551615, 2155, x'0000000000000000000000000000002a', '{\"a\": 1}')"
    )
    sql.execute("INSERT INTO cuts_stage.wide (id) VALUES (2)")
    with closing(RelationalCuts(DESTINATION, open_session(server.publisher, kind.dialect), kind.dialect)) as cuts:
        publish(cuts, staged("r1", {"wide": Place("cuts_stage.wide", 2)}))
    first, second = rows(kind.open_tables(DESTINATION, STREAM, DAY), "wide")
    assert first == {
        "id": 1,
        "small": Decimal("-12.34"),
        "big": Decimal("12345678901234567890123456789012345.678"),
        "huge": f"-1{'0' * 40}.0000",
        "at": datetime(1000, 1, 1, 0, 0, 0, 1),  # noqa: DTZ001 (the column has no zone)
        "day": date(9999, 12, 31),
        "memo": 'ü "q",',
        "raw": b"\x00\xff",
        "clock": -(838 * 3600 + 59 * 60 + 59) * 1_000_000,
        "flag": True,
        "ratio": 0.1,
        "number": Decimal(2**64 - 1),
        "at_year": 2155,
        # A MySQL has bytes, which nothing says are a UUID.
        "uid": "00000000-0000-0000-0000-00000000002a" if uuid == "uuid" else bytes([*[0] * 15, 42]),
        "doc": '{"a": 1}',
    }
    assert second == {**dict.fromkeys(first), "id": 2}
