"""A sync into Iceberg tables on real servers."""

from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psycopg
import pytest
from pyiceberg.table import StaticTable

from seamline.adapters.connections import resolve
from seamline.domain.position import Position
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import ReadView
from seamline.stack.lake import PUBLISHER, WRITER, provision
from seamline.stack.layout import Layout
from tests.conftest import RunningStack
from tests.integration.databases import postgres, postgres_database
from tests.integration.into_mariadb import synced
from tests.integration.known import destination_known_by_id
from tests.integration.test_mariadb_destination import AFTER, BEFORE, SOURCES
from tests.log_topic import sync_plan
from tests.once_more import ONCE_MORE

CATALOGUE = "ice_catalogue"


@pytest.fixture
def lake(stack: RunningStack, tmp_path: Path) -> Iterator[DestinationPlan]:
    with postgres_database(CATALOGUE) as publisher, destination_known_by_id(publisher, CATALOGUE):
        options = (("catalog", "lake"), ("warehouse", str(tmp_path)), ("write", "native"))
        plan = DestinationPlan("warehouse", "iceberg", CATALOGUE, "bank", writer_connection=f"{CATALOGUE}_writer")
        yield replace(plan, options=options)


def live(plan: SyncPlan, destination: DestinationPlan, at: Position) -> ReadView:
    kind = sink_kind(destination.kind)
    assert isinstance(kind, ReadsBack)
    (view,) = kind.open_live(plan, destination, 1)
    view._position = at  # type: ignore[attr-defined]  # noqa: SLF001
    return view


@pytest.mark.parametrize("kind", [pytest.param("postgres", marks=ONCE_MORE), "mariadb"])
def test_a_sync_into_iceberg_is_loaded_published_streamed_and_agrees_with_its_source(
    kind: str, lake: DestinationPlan
) -> None:
    with SOURCES[kind](f"ice_{kind}") as bank:
        bank.plan = replace(bank.plan, destinations=(lake,))
        verdicts = synced(bank, before=BEFORE, after=AFTER, there=live)
        assert verdicts == dict.fromkeys(("account", "audit"), Verdict.MATCH)
    with closing(postgres(resolve(CATALOGUE))) as session:
        heads = dict(session.execute("SELECT table_name, metadata_location FROM public.iceberg_tables").fetchall())
        assert session.execute("SELECT count(*) FROM seamline.finding").fetchone() == (0,)
    accounts, audits = (StaticTable.from_metadata(heads[name]).scan().to_arrow() for name in ("account", "audit"))
    assert sorted(tuple(row.values()) for row in accounts.to_pylist()) == [
        (1, 1, "ü€😀"),
        (4, 4, None),
        (20, None, "tail "),
    ]
    memos = Counter(audits.column("memo").to_pylist())
    assert memos == {"same": 3, "same ": 1, None: 1}


def test_the_stack_s_own_lake_lets_a_sync_in_and_its_writer_makes_nothing(stack: RunningStack) -> None:
    layout = Layout(stack.settings)
    for _ in range(2):
        provision(layout)
    options = (("catalog", "lake"), ("warehouse", str(layout.lake)), ("write", "native"))
    destination = DestinationPlan("lake", "iceberg", PUBLISHER, "settlement", writer_connection=WRITER, options=options)
    plan = replace(sync_plan(), destinations=(destination,))
    assert sink_kind("iceberg").problems(plan, destination) == ()
    with closing(postgres(resolve(WRITER))) as session, pytest.raises(psycopg.errors.InsufficientPrivilege):
        session.execute("CREATE TABLE public.mine ()")
