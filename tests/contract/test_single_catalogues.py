"""Iceberg tables in a Hive metastore and in Glue, which commit single tables: what a killed worker leaves, late owners,
other clients, cuts, readers, preflight, maintenance."""

import itertools
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any, cast

import pytest
from pyiceberg.catalog.hive import HiveCatalog
from pyiceberg.table.update import SetPropertiesUpdate

from seamline.adapters.connections import Connection
from seamline.domain.errors import CommitUnknown, Diverged, Fenced, TransientError
from seamline.domain.staged_cut import CutMode, Published, StagedCut, StagedTable
from seamline.domain.verdict import Verdict
from seamline.kinds.found import sink_kind
from seamline.plan.model import NightlyPlan
from seamline.sinks.iceberg.manifests import read_metadata
from seamline.sinks.iceberg.single.catalogue import SingleCatalogue
from seamline.sinks.iceberg.single.following import Following
from seamline.sinks.iceberg.single.glue import open_glue
from seamline.sinks.iceberg.single.hive import HiveCatalogue, open_hive
from seamline.sinks.iceberg.single_kind import SingleIceberg
from seamline.sinks.lake.kind import LakeKind
from tests import glue_server
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.conftest import Hive
from tests.contract.joining_behaviours import a_publish_of_fewer_tables_lets_the_others_leave
from tests.contract.single_world import SingleWorld
from tests.integration.databases import either_of
from tests.lake_metadata import altered, appended
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, Change, insert, update
from tests.once_more import ONCE_MORE

DAY, RUN, TAG = date(2026, 11, 27), "settlement__nightly/2026-11-27", "cut_2026_11_27_v1"
CHANGES: tuple[Change, ...] = (
    update(ACCOUNT, account(1), account(1, "changed")),
    insert(TRANSFER, tx=1, leg=1, amount="1.0000"),
    insert(AUDIT, actor="x", action="z"),
)
KIND = cast(LakeKind, sink_kind("iceberg_single"))


def _hive(request: pytest.FixtureRequest) -> tuple[Connection, Callable[[str], SingleCatalogue]]:
    metastore = request.getfixturevalue("hive").metastore
    return metastore, partial(open_hive, metastore)


def _glue(request: pytest.FixtureRequest) -> tuple[Connection, Callable[[str], SingleCatalogue]]:
    glue = request.getfixturevalue("glue")
    return glue, cache(partial(open_glue, glue))


OPENED = {"hive": _hive, "glue": _glue}


@pytest.fixture(scope="module")
def glue() -> Iterator[Connection]:
    with glue_server.running() as connection:
        yield connection


# Behaviours that are the same code over either catalogue: over Glue once more.
ALIKE = pytest.mark.parametrize("world", ["hive", pytest.param("glue", marks=ONCE_MORE)], indirect=True)


@pytest.fixture(params=OPENED)
def world(
    request: pytest.FixtureRequest, sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[SingleWorld]:
    """What a kind opens by connection ids leads into the test's database, and to its catalogue."""
    connection, open_catalogue = OPENED[request.param](request)
    ledger = either_of(sink_database)

    def resolve(connection_id: str) -> Connection:
        return connection if connection_id == "metastore" else ledger(connection_id)

    for module in ("lake.cuts", "lake.maintenance", "lake.pinned", "lake.preflight", "lake.read_back"):
        monkeypatch.setattr(f"seamline.sinks.{module}.resolve", resolve)
    for module in ("cuts", "opening", "preflight"):
        monkeypatch.setattr(f"seamline.sinks.iceberg.single.{module}.resolve", resolve)
    warehouse = tmp_path / "warehouse"
    with closing(SingleWorld(TABLES, sink_database, warehouse, open_catalogue, catalog_type=request.param)) as found:
        yield found


def begun(world: SingleWorld) -> Applying:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    return stream


# ---- kills and late owners ------------------------------------------------------------------------------------------


class Dying:
    """A catalogue whose client is killed behind its first move: one table is there, the others are not."""

    def __init__(self, catalogue: SingleCatalogue) -> None:
        self._catalogue = catalogue

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalogue, name)

    def move(self, *said: Any) -> bool:
        self._catalogue.move(*said)
        os.kill(os.getpid(), signal.SIGKILL)
        return True


def test_a_worker_killed_between_two_tables_leaves_one_behind_which_the_next_owner_leads_on(world: SingleWorld) -> None:
    begun(world)
    before = world.shown()
    child = os.fork()
    if child == 0:
        try:
            opened = world.open_catalogue
            world.open_catalogue = lambda: cast(SingleCatalogue, Dying(opened()))
            Applying(world).span(*CHANGES)
        finally:
            # No test goes on in here.
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    moved = {name for name, pointer in world.shown().items() if pointer != before[name]}
    assert len(moved) == 1, "the catalogue has one table of the commit"
    assert {name for name, pointer in world.led().items() if pointer != before[name]} == set(before), "the ledger all"
    reader = KIND.open_tables(world.destination, STREAM, "live")
    assert reader["account"].arrow().to_pylist() == [account(1, "changed")], "by the ledger it is whole"
    Applying(world)
    assert world.shown() == world.led()
    assert [world.rows(table) for table in TABLES] == [
        texts(account(1, "changed")),
        texts({"tx": 1, "leg": 1, "amount": "1.0000"}),
        texts({"actor": "x", "action": "y"}, {"actor": "x", "action": "z"}),
    ]


@ALIKE
def test_an_owner_that_slept_shows_nothing_any_more(world: SingleWorld) -> None:
    begun(world)
    late = Applying(world)
    Applying(world).span(*CHANGES)
    shown = world.shown()
    with pytest.raises(Fenced):
        late.span(insert(ACCOUNT, **account(2)))
    assert world.shown() == shown == world.led()
    late.sink.close()


@ALIKE
def test_a_commit_that_the_catalogue_does_not_show_is_unknown_until_the_next_owner_shows_it(world: SingleWorld) -> None:
    begun(world)
    opened, calls = world.open_catalogue, itertools.count()

    def away() -> SingleCatalogue:
        """Behind the ledger's commit: before it the tables were looked at twice."""
        if next(calls) == 2:
            raise TransientError("the catalogue is away")
        return opened()

    world.open_catalogue = away
    with pytest.raises(CommitUnknown, match="has committed, and its catalogue does not show it: the catalogue is away"):
        Applying(world).span(*CHANGES)
    world.open_catalogue = opened
    assert world.rows(ACCOUNT) == texts(account(1))
    assert Applying(world).next_offset > 0
    assert world.rows(ACCOUNT) == texts(account(1, "changed"))


def test_the_catalogue_itself_refuses_a_move_from_where_an_entry_led_before(
    world: SingleWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its client has read the entry in time, and another one has moved it since."""
    begun(world)
    old = world.shown()["account"]
    with closing(world.open_catalogue()) as catalogue:
        client = catalogue._client  # type: ignore[attr-defined]  # noqa: SLF001
        if isinstance(catalogue, HiveCatalogue):
            entry = client.get_table("settlement", "account")
        else:
            entry = client.get_table(DatabaseName="settlement", Name="account")
        Applying(world).span(*CHANGES)
        new = world.shown()["account"]
        with monkeypatch.context() as late:
            late.setattr(client, "get_table", lambda *_, **__: entry)
            assert not catalogue.move("account", old, old, read_metadata(old))
        assert world.shown()["account"] == new
        catalogue.drop("account")
        catalogue.drop("account")
        assert "account" not in catalogue.entries()
    Applying(world)
    assert world.shown() == world.led()


# ---- other clients --------------------------------------------------------------------------------------------------


def test_what_others_do_is_gone_on_from_or_stops_the_stream(world: SingleWorld) -> None:
    stream = begun(world)
    theirs = altered(world.shown()["account"], SetPropertiesUpdate(updates={"theirs": "1"}))
    moved_there(world, theirs)
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.shown() == world.led()
    assert read_metadata(world.shown()["account"]).properties["theirs"] == "1"
    moved_there(world, appended(world.shown()["account"]))
    with pytest.raises(Diverged, match="account: append of snapshot"):
        stream.span(insert(ACCOUNT, **account(3)))


def moved_there(world: SingleWorld, pointer: str) -> None:
    with closing(world.open_catalogue()) as catalogue:
        assert catalogue.move("account", world.shown()["account"], pointer, read_metadata(pointer))


def test_pyiceberg_s_client_of_a_metastore_reads_the_rows(
    hive: Hive, sink_database: Connection, tmp_path: Path
) -> None:
    """It also commits, but by a lock, whose tables a metastore of the tests does not have."""
    opened = partial(open_hive, hive.metastore)
    with closing(SingleWorld(TABLES, sink_database, tmp_path / "warehouse", opened)) as world:
        begun(world)
        theirs = HiveCatalog("lake", uri=f"thrift://{hive.metastore.host}:{hive.metastore.port}")
        assert theirs.load_table("settlement.account").scan().to_arrow().to_pylist() == [account(1)]


# ---- names, cuts, maintenance ---------------------------------------------------------------------------------------


@ALIKE
def test_a_table_that_leaves_keeps_its_rows_under_another_name(world: SingleWorld) -> None:
    a_publish_of_fewer_tables_lets_the_others_leave(world)
    assert world.shown() == world.led()
    assert [name for name in world.shown() if "__removed_" in name]


def test_a_cut_is_decided_at_once_and_shown_by_a_tag_on_each_table(world: SingleWorld) -> None:
    stream = begun(world)
    plan = replace(world.plan, nightly=NightlyPlan(keep_days=2, keep_month_ends=0, keep_versions_days=7))
    pinned = KIND.pin_live(plan, world.destination, 1, run_id=RUN)
    stream.span(*CHANGES)
    tables = [StagedTable(name, CutMode.WHOLE, number, 1, Verdict.MATCH) for name, number in pinned.staged_as.items()]
    at = pinned.views[0].position
    cut = StagedCut(RUN, STREAM.sync, STREAM.destination, DAY, at, datetime.now(UTC), tuple(tables))
    with closing(KIND.open_cuts(world.destination)) as cuts:
        assert cuts.publish(cut, definitions={}) == Published(1, is_new=True)
        assert cuts.publish(cut, definitions={}) == Published(1, is_new=False)
    assert world.shown() == world.led()
    refs = {name: read_metadata(pointer).refs for name, pointer in world.shown().items()}
    assert {name: [one for one in found if one != "main"] for name, found in refs.items()} == dict.fromkeys(refs, [TAG])
    assert KIND.open_tables(world.destination, STREAM, DAY)["account"].arrow().to_pylist() == [account(1)]
    assert KIND.open_live(plan, world.destination, 1)[0].position != at
    with closing(KIND.open_maintenance(world.destination)) as maintenance:
        assert maintenance.let_go().orphan_files == 0


@ALIKE
def test_preflight_names_a_table_of_somebody_else_and_takes_its_own(world: SingleWorld) -> None:
    assert KIND.problems(world.plan, world.destination) == ()
    begun(world)
    assert KIND.problems(world.plan, world.destination) == ()
    pointer = world.shown()["account"]
    with closing(world.open_catalogue()) as catalogue:
        catalogue.drop("account")
        theirs = pointer.replace("/warehouse/", "/theirs/")
        assert catalogue.add("account", theirs, read_metadata(pointer))
    (found,) = KIND.problems(world.plan, world.destination)
    assert "table settlement.account exists in the catalogue and was not made by this sync" in found.what


# ---- planted bugs ---------------------------------------------------------------------------------------------------


class Forgetful(Following):
    """A planted bug: a commit is not shown."""

    def settled(self, session: Any) -> Any:
        found = super().settled
        return found(session) if self.is_awake else type("Settled", (), {"others": {}, "foreign": {}})()

    is_awake = True


@ALIKE
def test_a_sink_that_does_not_let_the_catalogue_follow_is_caught(world: SingleWorld) -> None:
    begun(world)
    followed = Forgetful(world.destination, world.open_catalogue)
    followed.is_awake = False
    world.following = lambda: followed  # type: ignore[method-assign]
    Applying(world).span(*CHANGES)
    with pytest.raises(AssertionError):
        assert world.shown() == world.led()
    with pytest.raises(AssertionError):
        assert world.rows(ACCOUNT) == texts(account(1, "changed"))


def test_the_kind_promises_each_table_alone() -> None:
    assert SingleIceberg.powers.level == "each table exactly once; all tables at one position by the ledger's versions"
