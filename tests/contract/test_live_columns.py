"""Live tables that would not take a load are all named before it, as its publish would name them."""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest

from seamline.adapters.connections import Connection
from seamline.domain.catalogue import Column, Kind
from seamline.domain.errors import Refused, SchemaConflict, TransientError
from seamline.domain.ledger import StreamId
from seamline.kinds.found import sink_kind
from seamline.kinds.live_columns import Misfit
from seamline.kinds.sink import KeepsLiveTables
from seamline.plan.model import TablePlan
from tests.contract.behaviours import published
from tests.contract.lake_worlds import LAKES, PostgresLakeWorld
from tests.contract.relational_worlds import RELATIONAL, MariaDbWorld, relational_maker
from tests.contract.worlds import PostgresWorld
from tests.integration.databases import mariadb_writer_of
from tests.integration.known import destination_known_by_id
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, publication

Made = PostgresWorld | PostgresLakeWorld | MariaDbWorld
NARROWER = replace(ACCOUNT, columns=ACCOUNT.columns[:1])
RETYPED = replace(TRANSFER, columns=(*TRANSFER.columns[:2], Column("amount", Kind.STRING, "varchar(9)", length=9)))


@pytest.fixture(params=["postgres", *RELATIONAL, *LAKES])
def world(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Made]:
    """With its tables published, and its logins known by their ids."""
    made: Made
    if request.param in RELATIONAL:
        made = relational_maker(request.param, request)(TABLES)
        for name, one in (("WAREHOUSE", made.publisher), ("WAREHOUSE_WRITER", mariadb_writer_of(made.publisher))):
            address = f"mysql://{one.login}:{quote(one.password, safe='')}@{one.host}:{one.port}/"
            monkeypatch.setenv(f"SEAMLINE_CONNECTION_{name}", address)
        with closing(made):
            published(made)
            yield made
        return
    database: Connection = request.getfixturevalue("sink_database")
    made = (
        PostgresLakeWorld(TABLES, database, tmp_path, lake=LAKES[request.param])
        if request.param in LAKES
        else PostgresWorld(TABLES, database)
    )
    with closing(made), destination_known_by_id(database, "warehouse"):
        published(made)
        yield made


def misfits(world: Made, *tables: TablePlan, sync: str = "settlement") -> dict[str, Misfit]:
    plan = replace(world.plan, sync=sync, tables=tables)
    kind = sink_kind(plan.destinations[0].kind)
    assert isinstance(kind, KeepsLiveTables)
    return {one.table: one for one in kind.misfits(plan, plan.destinations[0])}


def test_all_tables_that_would_not_take_a_load_are_named_as_the_publish_would_name_them(world: Made) -> None:
    assert misfits(world, *world.plan.tables) == {}
    unknown, new = TablePlan("audit"), TablePlan("later", table=replace(AUDIT, name="later"))
    changed = (TablePlan("account", table=NARROWER), TablePlan("transfer", table=RETYPED))
    found = misfits(world, *changed, unknown, new)
    assert found.keys() == {"account", "transfer"}
    assert "name" in found["account"].what and "amount" in found["transfer"].what
    assert world.rows(ACCOUNT) == [] and misfits(world, *world.plan.tables) == {}, "looking has changed nothing"
    for table in (NARROWER, RETYPED):
        loads = [world.load(table if one.name == table.name else one, []) for one in TABLES]
        with pytest.raises(SchemaConflict) as refused:
            world.sink().publish(STREAM, loads, publication=publication(run_id="again"))
        assert (refused.value.message, refused.value.hint) == (found[table.name].what, found[table.name].cure)
    assert misfits(world, *changed, sync="another") == {}, "of another sync the owner is what is wrong"
    assert world.sink().read_ledger(StreamId("settlement", "warehouse")) is not None


@pytest.mark.parametrize("world", ["postgres", *RELATIONAL], indirect=True)
def test_a_load_of_another_key_does_not_fit_and_one_that_is_never_null_does(world: Made) -> None:
    other = replace(TRANSFER, key=("tx",))
    assert "leg" in misfits(world, TablePlan("transfer", table=other))["transfer"].what
    stricter = replace(ACCOUNT, columns=(ACCOUNT.columns[0], replace(ACCOUNT.columns[1], nullable=False)))
    assert misfits(world, TablePlan("account", table=stricter)) == {}


@pytest.mark.parametrize("world", [*LAKES], indirect=True)
def test_a_warehouse_that_is_away_is_said_and_is_no_crash(world: Made, tmp_path: Path) -> None:
    tables, away = world.plan.tables, tmp_path.with_name(f"{tmp_path.name}-away")
    tmp_path.rename(away)
    try:
        with pytest.raises((TransientError, Refused), match=r"look at the columns|holds no|is gone"):
            misfits(world, *tables)
    finally:
        away.rename(tmp_path)
    assert misfits(world, *tables) == {}
