"""Iceberg tables of a catalogue in PostgreSQL: what a killed worker leaves, other clients, preflight, maintenance."""

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from threading import Event
from typing import Any

import pyarrow as pa
import pytest
from psycopg.errors import LockNotAvailable
from pyiceberg.catalog.sql import SqlCatalog

from seamline.adapters.connections import Connection
from seamline.databases.postgres import client as client_of_postgres
from seamline.databases.postgres import kept_open
from seamline.databases.postgres import ledger as ledger_tables
from seamline.domain.digest import Segment
from seamline.domain.errors import Diverged, Fenced, Refused, TransientError
from seamline.kinds.found import sink_kind
from seamline.kinds.sink import ReadsBack
from seamline.sinks.iceberg.manifests import read_head
from seamline.sinks.iceberg.tables import IcebergTables
from seamline.sinks.lake import postgres_store
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.store import CatalogueChanges, Outcome, PointerMove
from tests.contract import lake_worker
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.joining_behaviours import (
    a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it,
    carrying,
    passed,
)
from tests.contract.lake_worlds import CATALOG, PostgresLakeWorld, compacted
from tests.integration.databases import either_of, postgres
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, insert, publication

Rows = list[list[str]]


@pytest.fixture
def world(sink_database: Connection, tmp_path: Path) -> Iterator[PostgresLakeWorld]:
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path)) as world:
        yield world


@pytest.fixture
def resolved(monkeypatch: pytest.MonkeyPatch, sink_database: Connection) -> None:
    """What a kind opens by connection ids leads into the test's database."""
    for module in ("sinks.iceberg.read_back", "sinks.lake.read_back", "sinks.lake.maintenance", "sinks.lake.preflight"):
        monkeypatch.setattr(f"seamline.{module}.resolve", either_of(sink_database))


def rows_of(world: PostgresLakeWorld) -> Rows:
    return [world.rows(table) for table in TABLES]


BEFORE = [texts(account(1), account(2)), [], texts({"actor": "x", "action": "y"})]
AFTER = [
    texts(account(1, "changed")),
    texts({"tx": 1, "leg": 1, "amount": "1.0000"}),
    texts({"actor": "x", "action": "z"}),
]


# The first time that `app.dml_half` is reached, files of one table are written; the second, one pointer has moved.
@pytest.mark.parametrize(
    ("place", "is_applied"),
    [
        ("app.dml_half=kill9@1", False),
        ("app.dest_begin=kill9", False),
        ("app.position_written=kill9", False),
        ("app.dml_half=kill9@2", False),
        ("app.dml_done=kill9", False),
        # The server has it by then, or not.
        ("app.commit_sent=kill9", None),
    ],
)
def test_a_worker_that_is_killed_leaves_all_tables_and_the_ledger_or_none(
    world: PostgresLakeWorld, sink_database: Connection, tmp_path: Path, place: str, is_applied: bool | None
) -> None:
    published(world).span(*(insert(ACCOUNT, **account(n)) for n in (1, 2)), insert(AUDIT, actor="x", action="y"))
    killed = lake_worker.exit_code_of_commit(tmp_path, sink_database, place, lake="iceberg")
    assert killed == -signal.SIGKILL
    again = Applying(world)
    is_applied = again.next_offset == 20 if is_applied is None else is_applied
    assert again.next_offset == (20 if is_applied else 10)
    assert rows_of(world) == (AFTER if is_applied else BEFORE)
    if not is_applied:
        again.span(*lake_worker.CHANGES)
        assert rows_of(world) == AFTER
    assert world.findings() == []


# ---- between the files of a span and its commit ---------------------------------------------------------------------


def beside(world: PostgresLakeWorld, happens: Callable[[], object]) -> Applying:
    """A stream each of whose commits begins when this has happened."""
    store = world.store()
    commit = store.commit

    def commit_late(*args: Any, **more: Any) -> Outcome:
        happens()
        return commit(*args, **more)

    store.commit = commit_late  # type: ignore[method-assign]
    return Applying(world, sink=world.sink_over(store))


def an_owner_that_is_over_leaves_nothing(world: PostgresLakeWorld) -> None:
    published(world).span(*(insert(ACCOUNT, **account(n)) for n in (1, 2)), insert(AUDIT, actor="x", action="y"))
    over = beside(world, lambda: world.session.execute("UPDATE seamline.ledger SET epoch = epoch + 1"))
    with pytest.raises(Fenced):
        over.span(*lake_worker.CHANGES)
    assert rows_of(world) == BEFORE


def test_an_owner_whose_stream_is_taken_while_it_writes_files_leaves_nothing(world: PostgresLakeWorld) -> None:
    an_owner_that_is_over_leaves_nothing(world)
    Applying(world).span(*lake_worker.CHANGES)
    assert rows_of(world) == AFTER


def test_a_ledger_that_is_not_asked_for_its_epoch_is_caught(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    statement = ledger_tables._COMPARE_AND_SET  # noqa: SLF001
    assert "AND epoch = %s" in statement
    monkeypatch.setattr(ledger_tables, "_COMPARE_AND_SET", statement.replace("AND epoch = %s", "AND %s > 0"))
    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        an_owner_that_is_over_leaves_nothing(world)


def test_a_compaction_meanwhile_lets_its_table_be_staged_again(world: PostgresLakeWorld) -> None:
    published(world).span(*(insert(ACCOUNT, **account(n)) for n in (1, 2)), insert(AUDIT, actor="x", action="y"))
    left = iter(range(2))

    def compact() -> None:
        if next(left, None) is not None:
            head = compacted(read_head(world.seen().heads["account"]))
            world.session.execute(
                "UPDATE public.iceberg_tables SET metadata_location = %s WHERE table_name = 'account'", (head.location,)
            )

    commit = beside(world, compact).span(*lake_worker.CHANGES)
    assert rows_of(world) == AFTER
    assert (commit.findings_total, world.findings()) == (0, [])
    assert next(left, None) is None


# ---- between the files of a publish and its transaction --------------------------------------------------------------


class Disturbed:
    """Happens each time a publish or a join has staged its files, unless it has to wait for them. `happened` and
    `waited`: how often."""

    def __init__(self, world: PostgresLakeWorld, lock: str, happens: Callable[[], object]) -> None:
        self._world, self._lock, self._happens = world, f"{lock} FOR UPDATE NOWAIT", happens
        self.happened = self.waited = 0

    def __call__(self) -> None:
        try:
            self._world.session.execute(self._lock)
        except LockNotAvailable:
            self.waited += 1
            return
        self._happens()
        self.happened += 1

    def from_now_on(self, patch: pytest.MonkeyPatch) -> None:
        for name in ("changes_of_publish", "changes_of_join"):
            patch.setattr(IcebergTables, name, self._after(getattr(IcebergTables, name)))

    def _after(self, staging: Callable[..., CatalogueChanges]) -> Callable[..., CatalogueChanges]:
        def staged(*args: Any, **more: Any) -> CatalogueChanges:
            changes = staging(*args, **more)
            self()
            return changes

        return staged


def test_a_publish_comes_to_its_end_beside_a_stream_that_is_ahead_of_each_attempt(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = published(world)
    loads = [world.load(table, [account(7)] if table is ACCOUNT else []) for table in TABLES]
    ids = itertools.count(100)
    commits = Disturbed(
        world, "SELECT FROM seamline.ledger", lambda: stream.span(insert(ACCOUNT, **account(next(ids))))
    )
    commits.from_now_on(monkeypatch)
    world.sink().publish(STREAM, loads, publication=publication(run_id="run-2"))
    assert (commits.happened, commits.waited) == (3, 1)
    assert world.rows(ACCOUNT) == texts(account(7))
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(8)))
    Applying(world).span(insert(ACCOUNT, **account(9)))
    assert world.rows(ACCOUNT) == texts(account(7), account(9))


@pytest.mark.parametrize(("kept_open_s", "ends"), [(60, nullcontext()), (0.2, pytest.raises(TransientError))])
def test_a_publish_may_write_for_long_while_the_stream_waits_and_not_for_ever(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch, kept_open_s: float, ends: AbstractContextManager[object]
) -> None:
    published(world)
    loads = [world.load(table, [account(7)] if table is ACCOUNT else []) for table in TABLES]
    monkeypatch.setitem(client_of_postgres._SETTINGS, "idle_in_transaction_session_timeout", "500")  # noqa: SLF001
    monkeypatch.setattr(kept_open, "ASKED_EVERY_S", 0.1)
    monkeypatch.setattr(kept_open, "KEPT_OPEN_S", kept_open_s)
    monkeypatch.setattr(postgres_store, "_BESIDE_THE_STREAM", 0)
    staging = IcebergTables.changes_of_publish

    def slow(*args: Any, **more: Any) -> CatalogueChanges:
        Event().wait(1.5)
        return staging(*args, **more)

    monkeypatch.setattr(IcebergTables, "changes_of_publish", slow)
    with ends:
        world.sink().publish(STREAM, loads, publication=publication(run_id="run-2"))
    assert world.rows(ACCOUNT) == (texts(account(7)) if kept_open_s == 60 else [])


def a_join_is_done_beside_a_compaction_in_a_loop(world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    carrying(world, *TABLES).span(insert(ACCOUNT, **account(2)))
    joining = passed(world, ACCOUNT, rows=[account(3)], at=10)

    def compact() -> None:
        head = compacted(read_head(world.seen().heads["account"]))
        world.session.execute(
            "UPDATE public.iceberg_tables SET metadata_location = %s"
            " WHERE table_namespace = 'settlement' AND table_name = 'account'",
            (head.location,),
        )

    its_pointer = "SELECT FROM public.iceberg_tables WHERE table_namespace = 'settlement' AND table_name = 'account'"
    compactions = Disturbed(world, its_pointer, compact)
    compactions.from_now_on(monkeypatch)
    world.sink().join(STREAM, joining)
    assert (compactions.happened, compactions.waited) == (3, 1)
    assert world.rows(ACCOUNT) == texts(account(3))


def test_a_join_comes_to_its_end_beside_a_compaction_in_a_loop(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_join_is_done_beside_a_compaction_in_a_loop(world, monkeypatch)


def test_pointers_that_are_read_and_not_held_are_caught(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Catalogue, "held", lambda self, session, namespace, _: self.pointers(session, namespace))
    with pytest.raises(TransientError, match="account has moved 20 times"):
        a_join_is_done_beside_a_compaction_in_a_loop(world, monkeypatch)


def test_a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it(
    world: PostgresLakeWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it(world, monkeypatch)


def test_a_view_that_has_a_table_s_name_is_named_by_the_publish(world: PostgresLakeWorld) -> None:
    loads = [world.load(table, []) for table in TABLES]
    world.sink().publish(STREAM, loads[1:], publication=publication(TABLES[1:]))
    Catalogue(CATALOG).add_view(world.session, "settlement", "account", "file:///theirs.json")
    with pytest.raises(Refused, match=r"settlement\.account is a view"):
        world.sink().publish(
            STREAM, [world.load(table, []) for table in TABLES], publication=publication(run_id="run-2")
        )
    assert world.rows(AUDIT) == []


# ---- other clients --------------------------------------------------------------------------------------------------


def client(connection: Connection, warehouse: Path) -> SqlCatalog:
    """pyiceberg's own catalogue, as anybody opens it."""
    uri = (
        f"postgresql+psycopg2://{connection.login}:{connection.password}@{connection.host}:{connection.port}"
        f"/{connection.database}"
    )
    return SqlCatalog(CATALOG, uri=uri, warehouse=f"file://{warehouse}", init_catalog_tables="false")


def test_another_client_of_the_catalogue_reads_the_tables_and_is_stopped_from_writing_them(
    world: PostgresLakeWorld, sink_database: Connection, tmp_path: Path
) -> None:
    stream = published(world)
    stream.span(*(insert(ACCOUNT, **account(number, "ü")) for number in range(3)))
    stream.span(*lake_worker.CHANGES[:2])
    catalogue = client(sink_database, tmp_path)
    assert {name for _, name in catalogue.list_tables("settlement")} == {"account", "transfer", "audit"}
    table = catalogue.load_table("settlement.account")
    found = sorted(table.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert found == [{"id": 0, "name": "ü"}, {"id": 1, "name": "changed"}]
    table.append(pa.table({"id": pa.array([7], pa.int32()), "name": ["theirs"]}, schema=table.schema().as_arrow()))
    with pytest.raises(Diverged, match="account: append of snapshot"):
        Applying(world)
    assert [(one.table, one.kind) for one in world.findings()] == [("account", "foreign write")]


def test_each_commit_names_the_snapshots_that_belong_together(world: PostgresLakeWorld, resolved: None) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    stream.span(insert(AUDIT, actor="x", action="y"))
    stream.span()
    kept = world.session.execute("SELECT next_offset, snapshots FROM seamline.lake_state ORDER BY state_id").fetchall()
    assert [offset for offset, _ in kept] == [0, 10, 20], "a commit that moves no table has no state of its own"
    moved = [
        {name for name in after if after[name] != before[name]}
        for (_, before), (_, after) in zip(kept, kept[1:], strict=False)
    ]
    assert moved == [{"account"}, {"audit"}]
    kind = sink_kind("iceberg")
    assert isinstance(kind, ReadsBack)
    view, other = kind.open_live(world.plan, world.destination, 2)
    assert view.position == other.position == stream.sink.read_ledger(STREAM).position  # type: ignore[union-attr]
    digests = [view.digests(Segment(table.name), run_key="k") for table in TABLES]
    assert [sum(one.rows for one in found.values()) for found in digests] == [1, 0, 1]


def test_preflight_finds_what_would_stop_a_sync_and_nothing_else(
    world: PostgresLakeWorld, sink_database: Connection, resolved: None
) -> None:
    kind = sink_kind("iceberg")
    assert kind.problems(world.plan, world.destination) == ()
    published(world)
    assert kind.problems(world.plan, world.destination) == ()
    with closing(postgres(sink_database)) as session:
        session.execute("REVOKE UPDATE ON public.iceberg_tables FROM warehouse_writer")
        (found,) = kind.problems(world.plan, world.destination)
        assert "warehouse_writer may not read and write public.iceberg_tables" in found.what
        session.execute("GRANT UPDATE ON public.iceberg_tables TO warehouse_writer")
        session.execute("UPDATE seamline.boundary SET removed_at = now() WHERE table_name = 'account'")
        (found,) = kind.problems(world.plan, world.destination)
        assert "settlement.account exists in the catalogue" in found.what


def test_preflight_names_tables_and_views_of_others_before_anything_is_published(
    world: PostgresLakeWorld, resolved: None
) -> None:
    catalogue, kind = Catalogue(CATALOG), sink_kind("iceberg")
    catalogue.create_tables(world.session)
    for namespace in ("settlement", "theirs"):
        catalogue.add_view(world.session, namespace, "account", "file:///theirs.json")
        catalogue.move(world.session, namespace, [PointerMove("audit", "", "file:///theirs.json", 1)])
    view, table = kind.problems(world.plan, world.destination)
    assert "settlement.account is a view in the catalogue" in view.what
    assert "settlement.audit exists in the catalogue" in table.what
    world.session.execute("DELETE FROM public.iceberg_tables WHERE table_namespace = 'settlement'")
    assert kind.problems(world.plan, world.destination) == ()


def test_maintenance_keeps_what_is_new_and_lets_go_of_old_states(world: PostgresLakeWorld, resolved: None) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    world.session.execute("UPDATE seamline.lake_state SET committed_at = now() - interval '8 days'")
    with closing(sink_kind("iceberg").open_maintenance(world.destination)) as maintenance:
        assert [(place.stream, place.next_offset) for place in maintenance.ledgers()] == [(str(STREAM), 10)]
        maintenance.let_go()
    assert world.session.execute("SELECT next_offset FROM seamline.lake_state").fetchall() == [(10,)]
    stream.span(insert(TRANSFER, tx=1, leg=1, amount="1.0000"))
    assert len(world.rows(TRANSFER)) == 1
