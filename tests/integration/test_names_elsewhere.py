"""One sync carries tables of several schemas, or of several databases of one server, under names of its own."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace

import pytest

from seamline.adapters.connections import Connection
from seamline.databases.mysql import canonical as mariadb_text
from seamline.databases.postgres import canonical as postgres_text
from seamline.domain.errors import Refused
from seamline.domain.names import NameLimit, NameUnit, fitted_name
from seamline.domain.verdict import BreakType, Verdict
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured
from tests.integration.captured_mysql import captured_mysql
from tests.integration.captured_postgres import captured_postgres
from tests.integration.databases import postgres_database
from tests.integration.into_mariadb import plan_of, synced, warehouse_in_mariadb
from tests.integration.known import destination_known_by_id, destination_plan
from tests.integration.snapshot_run import Records, rows_in, run_of, tools_of
from tests.integration.streamed import streamed
from tests.once_more import ONCE_MORE
from tests.opened_sink import postgres_sink

# As many letters as a name in PostgreSQL has; with the schema before it, and `_pkey` behind it, they are too many.
LONG = "票" * 21
LIMIT = NameLimit(63, NameUnit.BYTES)
DERIVED = fitted_name(f"Select_{LONG}", [LIMIT])
# Name in the sync → schema ("" is the source's own) and name there; of BESIDE
# only another sync knows.
PLACES = {"order": ("", "order"), "销售_order": ("销售", "order"), "deal": ("", "trade"), DERIVED: ("Select", LONG)}
BESIDE = ("Select", "order")
OTHERS = ("销售", "Select")
WAREHOUSE = destination_plan("elsewhere_warehouse", "named")


class Elsewhere:
    """A captured source, and how its statements name a table and the column of the amount. In the destination that
    column is called `amount_there`."""

    def __init__(self, one: Captured, quoted: Callable[[str], str], own: str, *, amount: str) -> None:
        self.one = one
        self.amount = amount
        self.amount_there = fitted_name(amount, [LIMIT])
        self._quoted = quoted
        self._own = own
        source = one.plan.source
        places = {name: ".".join(self._place(*place)) for name, place in PLACES.items() if place != ("", name)}
        one.plan = replace(
            one.plan,
            source=replace(source, elsewhere=tuple(places.items()), name_limits=((LIMIT.length, LIMIT.unit.value),)),
        )

    def at(self, *place: str) -> str:
        return ".".join(map(self._quoted, self._place(*place)))

    def _place(self, namespace: str, table: str) -> tuple[str, str]:
        return namespace or self._own, table


def create(at: Callable[..., str], amount: str) -> list[str]:
    columns = f"(id bigint PRIMARY KEY, {amount} decimal(12,2))"
    return [f"CREATE TABLE {at(*place)} {columns}" for place in (*PLACES.values(), BESIDE)]


@pytest.fixture(params=["mariadb", pytest.param("mysql", marks=ONCE_MORE), "postgres"])
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Elsewhere]:
    made = {"mariadb": in_mariadb, "postgres": in_postgres}.get(request.param)
    with made() if made else in_mysql(request.getfixturevalue("mysql_root")) as found:
        # What another sync of the source has brought into its log.
        found.one.registry.listed = (".".join(BESIDE),)
        yield found


@contextmanager
def in_postgres() -> Iterator[Elsewhere]:
    quoted = postgres_text.quoted

    def at(schema: str, table: str) -> str:
        return f"{quoted(schema or 'public')}.{quoted(table)}"

    # As the capture calls them.
    tables = ("order", "trade", "销售.order", f"Select.{LONG}", ".".join(BESIDE))
    made = (*(f"CREATE SCHEMA {quoted(schema)}" for schema in OTHERS), *create(at, "amount"))
    with captured_postgres("elsewhere_pg", create=made, tables=tables) as one:
        yield Elsewhere(one, quoted, "public", amount="amount")


@contextmanager
def in_mariadb() -> Iterator[Elsewhere]:
    with captured("elsewhere_my") as one, several_databases(one) as found:
        try:
            yield found
        finally:
            rights = [f"DELETE FROM mysql.{table} WHERE db IN {OTHERS}" for table in ("tables_priv", "db")]
            one.execute(*rights, "FLUSH PRIVILEGES")


@contextmanager
def in_mysql(server: Connection) -> Iterator[Elsewhere]:
    with captured_mysql(server, "elsewhere_mysql") as one, several_databases(one) as found:
        yield found


@contextmanager
def several_databases(one: Captured) -> Iterator[Elsewhere]:
    quoted = mariadb_text.quoted
    one.plan = replace(one.plan, source=replace(one.plan.source, databases=OTHERS))
    # A name that no column of PostgreSQL can have.
    found = Elsewhere(one, quoted, one.source_plan.database, amount="金" * 30)
    forgotten = [f"DROP DATABASE IF EXISTS {quoted(database)}" for database in OTHERS]
    made = (f"CREATE DATABASE {quoted(database)}" for database in OTHERS)
    one.execute(*forgotten, *made, *create(found.at, found.amount))
    try:
        yield found
    finally:
        one.execute(*forgotten)


@pytest.fixture
def warehouse(stack: RunningStack) -> Iterator[Connection]:
    name = WAREHOUSE.connection
    with postgres_database(name) as connection, destination_known_by_id(connection, name):
        yield connection


@pytest.mark.parametrize("bank", ["mariadb", "mysql", "postgres"], indirect=True)
def test_tables_of_several_places_are_streamed_each_to_its_own(bank: Elsewhere, warehouse: Connection) -> None:
    one = bank.one
    with streamed(one, warehouse, *PLACES) as stream:
        stream.start()
        for number, place in enumerate((*PLACES.values(), BESIDE)):
            rows = ", ".join(f"({row}, {row}.50)" for row in range(number + 1))
            one.execute(f"INSERT INTO {bank.at(*place)} VALUES {rows}")
        one.execute(f"UPDATE {bank.at(*PLACES['deal'])} SET {bank.amount} = 7 WHERE id = 1")
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
        stream.query(f'UPDATE live."deal" SET {bank.amount_there} = 8 WHERE id = 1 RETURNING 1')
        (broken,) = stream.verdicts()["deal"].breaks
        assert (broken.type, broken.source) == (BreakType.VALUE, {bank.amount_there: "7.00"})
        assert stream.findings() == 0


def test_tables_of_several_places_are_read_at_one_position_and_published(
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
    with closing(postgres_sink(run.plan, WAREHOUSE)) as sink:
        publish(run, WAREHOUSE.name, sink=sink)
    live = rows_in(warehouse, WAREHOUSE.namespace, {name: name for name in PLACES})
    assert {name: [str(row[1]) for row in rows] for name, rows in live.items()} == {
        name: [f"{number}.50"] for number, name in enumerate(PLACES)
    }


def test_tables_of_several_places_come_into_mariadb_each_into_its_own(bank: Elsewhere) -> None:
    one = bank.one
    one.plan = replace(one.with_tables(*PLACES), destinations=(plan_of("elsewhere_md"),))
    before = [f"INSERT INTO {bank.at(*place)} VALUES (1, {number}.50)" for number, place in enumerate(PLACES.values())]
    after = [f"INSERT INTO {bank.at(*place)} VALUES (2, {number}.75)" for number, place in enumerate(PLACES.values())]
    with warehouse_in_mariadb("elsewhere_md"):
        assert synced(one, before=before, after=after) == dict.fromkeys(PLACES, Verdict.MATCH)


def test_a_capture_that_runs_reads_no_other_database_than_it_began_with(stack: RunningStack) -> None:
    with in_mariadb() as found:
        one = found.one
        one.ensure()
        narrow = replace(one.plan, source=replace(one.plan.source, databases=OTHERS[:1]))
        with pytest.raises(Refused, match="began with the structure of the databases elsewhere_my,"):
            one.ensure(narrow)
        assert not one.ensure().changed
