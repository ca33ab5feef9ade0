"""One sync carries tables of several schemas, under names of its own. Those that it does not carry stay apart."""

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres import canonical as postgres_text
from seamline.domain.names import NameLimit, NameUnit, fitted_name
from seamline.domain.verdict import BreakType, Verdict
from seamline.sinks.postgres.sink import PostgresSink
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.captured import Captured
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import Records, rows_in, run_of, tools_of
from tests.integration.streamed import streamed

LONG = "a" * 63
DERIVED = fitted_name(f"Select_{LONG}", [NameLimit(63, NameUnit.BYTES)])
# Name in the sync → schema ("" is the source's own) and name there; of `beside` no sync knows.
PLACES = {"order": ("", "order"), "销售_order": ("销售", "order"), "deal": ("", "trade"), DERIVED: ("Select", LONG)}
BESIDE = ("Select", "order")
WAREHOUSE = destination_plan("elsewhere_warehouse", "named")


class Elsewhere:
    """A captured source, and how its statements name a table."""

    def __init__(self, one: Captured, quoted: Callable[[str], str], own: str) -> None:
        self.one = one
        self._quoted = quoted
        self._own = own
        source = one.plan.source
        places = {name: ".".join(self._place(*place)) for name, place in PLACES.items() if place != ("", name)}
        one.plan = replace(one.plan, source=replace(source, elsewhere=tuple(places.items())))

    def at(self, *place: str) -> str:
        return ".".join(map(self._quoted, self._place(*place)))

    def _place(self, namespace: str, table: str) -> tuple[str, str]:
        return namespace or self._own, table


def create(at: Callable[..., str], namespaces: tuple[str, ...]) -> tuple[str, ...]:
    columns = "(id bigint PRIMARY KEY, amount decimal(12,2))"
    return (*namespaces, *(f"CREATE TABLE {at(*place)} {columns}" for place in (*PLACES.values(), BESIDE)))


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Elsewhere]:
    quoted = postgres_text.quoted

    def at(schema: str, table: str) -> str:
        return f"{quoted(schema or 'public')}.{quoted(table)}"

    made = create(at, tuple(f"CREATE SCHEMA {quoted(schema)}" for schema in ("销售", "Select")))
    # As the capture calls them: of the sync's own, and one that another sync carries.
    tables = ("order", "trade", "销售.order", f"Select.{LONG}", ".".join(BESIDE))
    with captured_postgres("elsewhere_pg", create=made, tables=tables) as one:
        yield Elsewhere(one, quoted, "public")


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


def test_tables_of_several_schemas_are_streamed_each_to_its_own(bank: Elsewhere, warehouse: Connection) -> None:
    one = bank.one
    with streamed(one, warehouse, *PLACES) as stream:
        stream.start()
        for number, place in enumerate((*PLACES.values(), BESIDE)):
            rows = ", ".join(f"({row}, {row}.50)" for row in range(number + 1))
            one.execute(f"INSERT INTO {bank.at(*place)} VALUES {rows}")
        one.execute(f"UPDATE {bank.at(*PLACES['deal'])} SET amount = 7 WHERE id = 1")
        stream.wait_until_applied()
        found = stream.verdicts()
        assert {name: (one.verdict, one.source_rows) for name, one in found.items()} == {
            name: (Verdict.MATCH, number + 1) for number, name in enumerate(PLACES)
        }
        # Of three tables `order` one is emptied.
        one.execute(f"TRUNCATE TABLE {bank.at(*PLACES['销售_order'])}")
        stream.wait_until_applied()
        assert {name: one.source_rows for name, one in stream.verdicts().items()}["销售_order"] == 0
        assert {one.verdict for one in stream.verdicts().values()} == {Verdict.MATCH}
        stream.query('UPDATE live."deal" SET amount = 8 WHERE id = 1 RETURNING 1')
        (broken,) = stream.verdicts()["deal"].breaks
        assert (broken.type, broken.source) == (BreakType.VALUE, {"amount": "7.00"})
        assert stream.findings() == 0


def test_tables_of_several_schemas_are_read_at_one_position_and_published(
    bank: Elsewhere, warehouse: Connection
) -> None:
    one = bank.one
    one.plan = replace(one.with_tables(*PLACES), destinations=(WAREHOUSE,))
    one.ensure()
    for number, place in enumerate(PLACES.values()):
        one.execute(f"INSERT INTO {bank.at(*place)} VALUES (1, {number}.50)")
    run = run_of(one, tuple(PLACES))
    assert [problem for problem in one.source.preflight(one.source.catalogue(list(PLACES))) if problem.is_fatal] == []
    run.result["snapshot"] = take_snapshot(run, tools_of(one, run, Records()))
    with closing(PostgresSink(run.plan, WAREHOUSE)) as sink:
        publish(run, WAREHOUSE.name, sink=sink)
    live = rows_in(warehouse, WAREHOUSE.schema, {name: name for name in PLACES})
    assert {name: [str(row[1]) for row in rows] for name, rows in live.items()} == {
        name: [f"{number}.50"] for number, name in enumerate(PLACES)
    }
