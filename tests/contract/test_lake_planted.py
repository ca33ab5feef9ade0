"""What a lake's commit must never do is planted, one bug at a time, and a named check must catch it.

Beside these: a tag on the wrong snapshot (`test_lake_cuts.py`), and one copy too few that is removed
(`tests/unit/test_lake_sink.py`). In a stream's own process, under kills: `tests/fault/real/test_planted.py`.
"""

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.update import RemoveSnapshotsUpdate

from seamline.adapters.connections import Connection
from seamline.databases.postgres import ledger as ledger_tables
from seamline.domain.errors import SeamlineError
from seamline.ports import Lease
from seamline.sinks.iceberg import snapshot
from seamline.sinks.lake import sink as lake_sink
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from tests.contract.behaviours import (
    Behaviour,
    account,
    my_own_commit_repeated_after_its_answer_was_lost_is_answered_from_the_ledger,
    published,
)
from tests.contract.lake_worlds import PostgresLakeWorld
from tests.contract.test_lake_catalogue import an_owner_that_is_over_leaves_nothing, client
from tests.contract.test_lake_cuts import TAG, Cutting, resolved
from tests.log_topic import ACCOUNT, AUDIT, TABLES, insert, update

Plant = Callable[[pytest.MonkeyPatch], None]


@pytest.fixture
def world(sink_database: Connection, tmp_path: Path) -> Iterator[PostgresLakeWorld]:
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path)) as world:
        yield world


# ---- pointers and ledger --------------------------------------------------------------------------------------------


def pointers_before_ledger(patch: pytest.MonkeyPatch) -> None:
    """In a transaction of their own, before that of the ledger."""
    right = PostgresLakeStore._commit  # noqa: SLF001

    def commit(self: PostgresLakeStore, session: Any, lease: Lease, moves: Any, *more: Any) -> Any:
        session.execute("BEGIN")
        self._catalogue.move(session, self._destination.namespace, moves)  # noqa: SLF001
        session.execute("COMMIT")
        return right(self, session, lease, [], *more)

    patch.setattr(PostgresLakeStore, "_commit", commit)


def a_staged_head_promoted_twice(patch: pytest.MonkeyPatch) -> None:
    """A span is committed wherever the ledger stands: behind a lost answer it is there already."""
    statement = ledger_tables._COMPARE_AND_SET  # noqa: SLF001
    assert "next_offset = %s AND" in statement
    patch.setattr(ledger_tables, "_COMPARE_AND_SET", statement.replace("next_offset = %s AND", "%s >= 0 AND"))
    patch.setattr(lake_sink, "_begins_here", lambda *_: True)


PLANTED: list[tuple[Plant, Behaviour]] = [
    (pointers_before_ledger, an_owner_that_is_over_leaves_nothing),
    (a_staged_head_promoted_twice, my_own_commit_repeated_after_its_answer_was_lost_is_answered_from_the_ledger),
]


@pytest.mark.parametrize(("plant", "check"), PLANTED, ids=[plant.__name__ for plant, _ in PLANTED])
def test_a_bug_of_a_commit_is_caught(
    world: PostgresLakeWorld, plant: Plant, check: Behaviour, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        check(world)


@pytest.mark.parametrize("check", [check for _, check in PLANTED], ids=[check.__name__ for _, check in PLANTED])
def test_without_a_bug_the_check_of_a_commit_passes(world: PostgresLakeWorld, check: Behaviour) -> None:
    check(world)


# ---- expiry ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def cutting(sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cutting]:
    resolved(monkeypatch, sink_database)
    monkeypatch.setattr(snapshot, "SNAPSHOTS_KEPT", 3)
    monkeypatch.setattr(snapshot, "_LET_GO_AT_ONCE", 1)
    with closing(PostgresLakeWorld(TABLES, sink_database, tmp_path)) as world:
        cutting = Cutting(world)
        with closing(cutting.cuts):
            yield cutting


def what_a_cut_holds_outlives_the_expiry_of_the_stream_and_of_other_clients(
    cutting: Cutting, connection: Connection, warehouse: Path
) -> None:
    stream = published(cutting.world)
    stream.span(insert(ACCOUNT, **account(1, "at the cut")), insert(AUDIT, actor="x", action="y"))
    assert cutting.publish(cutting.pin()) == 1
    before = "at the cut"
    for number in range(12):
        stream.span(update(ACCOUNT, account(1, before), account(1, f"later {number}")))
        before = f"later {number}"
    assert cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]
    # As Spark's expire_snapshots does it: what no branch and no tag holds goes, however young.
    table = client(connection, warehouse).load_table("settlement.account")
    held = {ref.snapshot_id for ref in table.metadata.refs.values()}
    others = [one.snapshot_id for one in table.metadata.snapshots if one.snapshot_id not in held]
    assert others
    table.maintenance.expire_snapshots().by_ids(others).commit()
    assert cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]
    stream.span(update(ACCOUNT, account(1, before), account(1, "last")))
    assert cutting.rows(TAG).column("name").to_pylist() == ["at the cut"]
    assert set(cutting.tags()) == {TAG}
    assert cutting.world.rows(ACCOUNT) == ['{"id": 1, "name": "last"}']
    assert cutting.world.findings() == []


def test_what_a_cut_holds_stays_readable(cutting: Cutting, sink_database: Connection, tmp_path: Path) -> None:
    what_a_cut_holds_outlives_the_expiry_of_the_stream_and_of_other_clients(cutting, sink_database, tmp_path)


def test_an_expiry_that_ignores_tags_is_caught(
    cutting: Cutting, sink_database: Connection, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def let_go(metadata: Any) -> Iterator[RemoveSnapshotsUpdate]:
        others = [one.snapshot_id for one in metadata.snapshots if one.snapshot_id != metadata.current_snapshot_id]
        if len(others) > snapshot.SNAPSHOTS_KEPT:
            yield RemoveSnapshotsUpdate(snapshot_ids=others[: -snapshot.SNAPSHOTS_KEPT])

    monkeypatch.setattr(snapshot, "let_go", let_go)
    with pytest.raises(AssertionError):
        what_a_cut_holds_outlives_the_expiry_of_the_stream_and_of_other_clients(cutting, sink_database, tmp_path)
