"""Tables are carried under the names that their source gives them: of any script, with blanks, and of either case."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql import canonical as mariadb_text
from seamline.databases.postgres import canonical as postgres_text
from seamline.domain.verdict import BreakType, Verdict
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import Records, rows_in, run_of, tools_of
from tests.integration.streamed import streamed
from tests.once_more import ONCE_MORE
from tests.opened_sink import postgres_sink

KEYLESS = "trade date"
NAMES = ("票据", KEYLESS, "Trade", "trade", "Übertrag-2$", """O'Neil's "new" deal""")
BESIDE = "TRADE"
COLUMNS = {
    "编号": "bigint",
    "booked at": "date",
    "金额": "decimal(12,2)",
    "Memo-1": "varchar(20)",
    "memo$": "varchar(20)",
    'd\'or "so"': "varchar(20)",
}
WAREHOUSE = destination_plan("names_warehouse", "named")


def create(quoted: Callable[[str], str]) -> tuple[str, ...]:
    columns = ", ".join(f"{quoted(name)} {kind}" for name, kind in COLUMNS.items())
    keyed = f"{columns}, PRIMARY KEY ({quoted('编号')})"
    return tuple(f"CREATE TABLE {quoted(name)} ({columns if name == KEYLESS else keyed})" for name in (*NAMES, BESIDE))


@pytest.fixture(params=["mariadb", "postgres"])
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[tuple[Captured, Callable[[str], str]]]:
    if request.param == "mariadb":
        with captured("names_my") as one:
            one.execute(*create(mariadb_text.quoted))
            yield one, mariadb_text.quoted
        return
    full = f"ALTER TABLE {postgres_text.quoted(KEYLESS)} REPLICA IDENTITY FULL"
    made = (*create(postgres_text.quoted), full)
    with captured_postgres("names_pg", create=made, tables=NAMES) as one:
        yield one, postgres_text.quoted


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


def test_every_change_of_such_a_table_arrives_and_a_break_names_its_row(
    bank: tuple[Captured, Callable[[str], str]], warehouse: Connection
) -> None:
    one, quoted = bank
    number, amount = quoted("编号"), quoted("金额")
    with streamed(one, warehouse, *NAMES) as stream:
        stream.start()
        for name in (*NAMES, BESIDE):
            table = quoted(name)
            one.execute(
                f"INSERT INTO {table} VALUES (1, '2026-11-27', 1.50, '票', 'a', 'x'), (2, NULL, NULL, '', 'b', '')",
                f"UPDATE {table} SET {amount} = 7 WHERE {number} = 1",
                f"UPDATE {table} SET {number} = 3 WHERE {number} = 2",
                f"INSERT INTO {table} VALUES (4, NULL, 4, 'gone', NULL, NULL)",
                f"DELETE FROM {table} WHERE {number} = 4",
            )
        stream.wait_until_applied()
        found = stream.verdicts()
        assert {(one.verdict, one.source_rows) for one in found.values()} == {(Verdict.MATCH, 2)}, found
        # Of three tables whose names differ by case alone, one is emptied, another is not, the third is not carried.
        one.execute(f"TRUNCATE TABLE {quoted('Trade')}", f"TRUNCATE TABLE {quoted('票据')}")
        one.execute(f"INSERT INTO {quoted('Trade')} VALUES (9, NULL, 9, 'after', NULL, NULL)")
        stream.wait_until_applied()
        rows = {name: verdict.source_rows for name, verdict in stream.verdicts().items()}
        assert rows == dict.fromkeys(NAMES, 2) | {"票据": 0, "Trade": 1}
        assert {verdict.verdict for verdict in stream.verdicts().values()} == {Verdict.MATCH}
        stream.query('UPDATE live."trade" SET "金额" = 8 WHERE "编号" = 1 RETURNING 1')
        (found,) = stream.verdicts()["trade"].breaks
        assert (found.type, found.key, found.source) == (BreakType.VALUE, '{"编号": "1"}', {"金额": "7.00"})
        assert stream.findings() == 0


@pytest.mark.parametrize("bank", [pytest.param("mariadb", marks=ONCE_MORE), "postgres"], indirect=True)
def test_such_a_table_is_staged_compared_and_published_as_any_other(
    bank: tuple[Captured, Callable[[str], str]], warehouse: Connection
) -> None:
    one, quoted = bank
    one.plan = replace(one.with_tables(*NAMES), destinations=(WAREHOUSE,))
    one.ensure()
    for name in NAMES:
        one.execute(f"INSERT INTO {quoted(name)} VALUES (1, '2026-11-27', 1.50, '票', 'a', 'x')")
    run = run_of(one, NAMES)
    run.result["snapshot"] = take_snapshot(run, tools_of(one, run, Records()))
    with closing(postgres_sink(run.plan, WAREHOUSE)) as sink:
        publish(run, WAREHOUSE.name, sink=sink)
    live = rows_in(warehouse, WAREHOUSE.namespace, {name: name for name in NAMES})
    assert {name: [str(row[2]) for row in rows] for name, rows in live.items()} == dict.fromkeys(NAMES, ["1.50"])
