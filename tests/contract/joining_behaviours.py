"""What every sink must do when tables enter a stream that goes on, are loaded again, or leave it."""

from collections.abc import Sequence
from typing import Any

import pytest

from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.errors import CommitUnknown, Fenced, NotCaughtUp, Refused
from seamline.ports import Commit, Joining
from seamline.sinks.iceberg.tables import IcebergTables
from seamline.sinks.lake.store import CatalogueChanges
from tests.contract.behaviours import Applying, Behaviour, account, texts
from tests.contract.worlds import Row, World
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, insert, publication, sync_plan
from tests.memory_sink import LostAnswer

JOINING_BEHAVIOURS: list[Behaviour] = []
LEG = {"tx": 1, "leg": 1, "amount": "5.0000"}
CALL = {"actor": "x", "action": "y"}


def behaviour(check: Behaviour) -> Behaviour:
    JOINING_BEHAVIOURS.append(check)
    return check


def carrying(world: World, *tables: Table, run_id: str = "run-1") -> Applying:
    """A stream of these tables with one account."""
    world.plan = sync_plan(tables)
    loads = [world.load(table, [account(1)] if table is ACCOUNT else []) for table in tables]
    world.sink().publish(STREAM, loads, publication=publication(tables, run_id=run_id))
    return Applying(world)


def passed(world: World, *tables: Table, rows: Sequence[Row], at: int) -> Joining:
    """These tables with these rows in an incremental snapshot of their own that stands at this offset."""
    whole = world.plan
    world.plan = sync_plan(TABLES).incremental_plan([table.name for table in tables], str(at))
    stream = world.plan.stream_id("warehouse")
    schema = world.plan.destinations[0].namespace
    loads = [world.load(table, rows) for table in tables]
    world.sink().publish(stream, loads, publication=publication(tables, run_id=f"pass-{at}", covered=7, next_offset=at))
    world.plan = whole
    return Joining(f"run-{at}", tuple(tables), stream, schema)


@behaviour
def a_table_enters_a_stream_that_stands_where_its_incremental_snapshot_does_and_the_others_are_untouched(
    world: World,
) -> None:
    stream = carrying(world, ACCOUNT)
    before = stream.span(insert(ACCOUNT, **account(2))).ledger
    joining = passed(world, TRANSFER, AUDIT, rows=[], at=10)
    assert world.rows(TRANSFER) == [], "nobody sees the tables of an incremental snapshot"
    after = world.sink().join(STREAM, joining).ledger
    assert (after.next_offset, after.position, after.applied_transactions) == (
        10,
        before.position,
        before.applied_transactions,
    )
    assert after.epoch == before.epoch + 1
    assert boundaries(after.boundaries) == {("account", 1), ("transfer", 1), ("audit", 1)}
    assert {b.high_marker for b in after.boundaries} == {"high-1"}
    world.plan = sync_plan(TABLES)
    going_on = Applying(world)
    going_on.span(insert(TRANSFER, **LEG), insert(AUDIT, **CALL), insert(AUDIT, **CALL))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert (world.rows(TRANSFER), world.rows(AUDIT)) == (texts(LEG), texts(CALL, CALL))


@behaviour
def a_snapshot_that_stands_elsewhere_is_refused_and_changes_nothing(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    with pytest.raises(NotCaughtUp):
        world.sink().join(STREAM, joining)
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(TRANSFER) == []
    world.sink().join(STREAM, joining)
    assert world.rows(TRANSFER) == texts(LEG)


@behaviour
def a_table_that_is_loaded_again_and_stands_elsewhere_leaves_its_stream_alone(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    joining = passed(world, ACCOUNT, rows=[account(3)], at=10)
    with pytest.raises(NotCaughtUp):
        world.sink().join(STREAM, joining)
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    world.sink().join(STREAM, joining)
    assert world.rows(ACCOUNT) == texts(account(3))


@behaviour
def a_table_without_its_incremental_snapshot_joins_nothing(world: World) -> None:
    carrying(world, ACCOUNT)
    nowhere = sync_plan(TABLES).incremental_plan(["transfer"], "none").stream_id("warehouse")
    with pytest.raises(NotCaughtUp):
        world.sink().join(STREAM, Joining("run-x", (TRANSFER,), nowhere))


@behaviour
def nothing_joins_a_stream_that_was_never_published(world: World) -> None:
    joining = passed(world, TRANSFER, rows=[], at=10)
    with pytest.raises(Refused, match="published"):
        world.sink().join(STREAM, joining)


@behaviour
def a_joining_is_resolved_by_its_run(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    stream.span()
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    first = world.sink().join(STREAM, joining)
    world.plan = sync_plan((ACCOUNT, TRANSFER))
    Applying(world).span(insert(ACCOUNT, **account(3)))
    again = world.sink().join(STREAM, joining)
    assert again.ledger.next_offset == first.ledger.next_offset + 10, "a repeat finds it done and changes nothing"


@behaviour
def a_joining_whose_answer_was_lost_is_found_done(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    stream.span()
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    with pytest.raises(CommitUnknown):
        world.sink_losing_its_answer(LostAnswer.APPLIED).join(STREAM, joining)
    assert boundaries(world.sink().join(STREAM, joining).ledger.boundaries) == {("account", 1), ("transfer", 1)}
    assert world.rows(TRANSFER) == texts(LEG)


@behaviour
def a_joining_that_never_arrived_can_be_repeated(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    stream.span()
    joining = passed(world, TRANSFER, rows=[LEG], at=10)
    with pytest.raises(CommitUnknown):
        world.sink_losing_its_answer(LostAnswer.NOT_APPLIED).join(STREAM, joining)
    assert world.rows(TRANSFER) == []
    world.sink().join(STREAM, joining)
    assert world.rows(TRANSFER) == texts(LEG)


@behaviour
def the_stream_of_before_is_fenced(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    stream.span()
    world.sink().join(STREAM, passed(world, TRANSFER, rows=[], at=10))
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1))


@behaviour
def a_table_that_is_loaded_again_becomes_what_its_snapshot_says_and_begins_a_generation(
    world: World,
) -> None:
    stream = carrying(world, ACCOUNT, AUDIT)
    stream.span(insert(ACCOUNT, **account(2)), insert(AUDIT, **CALL))
    fresh = [account(1, "mended"), account(9)]
    after = world.sink().join(STREAM, passed(world, ACCOUNT, rows=fresh, at=10))
    assert world.rows(ACCOUNT) == texts(*fresh)
    assert world.rows(AUDIT) == texts(CALL), "the others are untouched"
    assert boundaries(after.ledger.boundaries) == {("account", 2), ("audit", 1)}


@behaviour
def the_ledger_keeps_the_schema_that_each_table_was_loaded_with(world: World) -> None:
    carrying(world, ACCOUNT, AUDIT).span()
    world.sink().join(STREAM, passed(world, TRANSFER, rows=[LEG], at=10))
    ledger = world.sink().read_ledger(STREAM)
    assert ledger is not None
    assert {one.table: one.fingerprint for one in ledger.boundaries} == {one.name: fingerprint(one) for one in TABLES}


@behaviour
def a_table_that_leaves_is_carried_no_more_and_comes_back_as_another_generation(world: World) -> None:
    stream = carrying(world, ACCOUNT, TRANSFER)
    stream.span(insert(TRANSFER, **LEG))
    after = leave(world, "run-leave")
    assert boundaries(after.ledger.boundaries) == {("account", 1)}
    assert after.ledger.next_offset == 10
    assert world.rows(TRANSFER) == []
    world.plan = sync_plan((ACCOUNT,))
    Applying(world).span(insert(ACCOUNT, **account(2)))
    back = world.sink().join(STREAM, passed(world, TRANSFER, rows=[LEG], at=20))
    assert boundaries(back.ledger.boundaries) == {("account", 1), ("transfer", 2)}
    assert world.rows(TRANSFER) == texts(LEG)
    assert boundaries(leave(world, "run-leave-again").ledger.boundaries) == {("account", 1)}


@behaviour
def a_run_that_changes_no_table_is_kept_and_the_stream_goes_on(world: World) -> None:
    """Of a sync whose destinations of cuts get another transform."""
    before = carrying(world, ACCOUNT).span(insert(ACCOUNT, **account(2))).ledger
    after = world.sink().join(STREAM, Joining("run-nothing")).ledger
    assert (after.next_offset, boundaries(after.boundaries)) == (before.next_offset, {("account", 1)})
    assert world.sink().join(STREAM, Joining("run-nothing")).ledger == after
    Applying(world).span(insert(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2), account(3))


def leave(world: World, run_id: str) -> Commit:
    return world.sink().join(STREAM, Joining(run_id, kept_as={"transfer": f"transfer__{run_id}"}))


def a_table_that_joins_while_the_files_of_a_publish_are_written_leaves_by_it(
    world: World, patch: pytest.MonkeyPatch
) -> None:
    """Of Iceberg tables. The publish puts the ledger back to where its own tables were read, and not that table."""
    carrying(world, ACCOUNT).span(insert(ACCOUNT, **account(2)))
    joining, load = passed(world, TRANSFER, rows=[LEG], at=10), world.load(ACCOUNT, [account(7)])
    staging, joined = IcebergTables.changes_of_publish, list[Commit]()

    def slow(*given: Any, **more: Any) -> CatalogueChanges:
        changes = staging(*given, **more)
        if not joined:
            joined.append(world.sink().join(STREAM, joining))
        return changes

    patch.setattr(IcebergTables, "changes_of_publish", slow)
    after = world.sink().publish(STREAM, [load], publication=publication([ACCOUNT], run_id="run-2")).ledger
    assert boundaries(joined[0].ledger.boundaries) == {("account", 1), ("transfer", 1)}
    assert (after.next_offset, boundaries(after.boundaries)) == (0, {("account", 2)})
    assert (world.rows(ACCOUNT), world.rows(TRANSFER)) == (texts(account(7)), [])


def boundaries(found: Sequence[object]) -> set[tuple[str, int]]:
    return {(one.table, one.generation) for one in found}  # type: ignore[attr-defined]


@behaviour
def a_snapshot_given_up_lets_no_old_rows_in_and_is_gone_after_the_next_joining(world: World) -> None:
    stream = carrying(world, ACCOUNT)
    passed(world, TRANSFER, rows=[{**LEG, "amount": "9.0000"}], at=5)
    given_up = sync_plan(TABLES).incremental_plan(["transfer"], "5").stream_id("warehouse")
    stream.span()
    world.sink().join(STREAM, passed(world, TRANSFER, rows=[LEG], at=10))
    assert world.rows(TRANSFER) == texts(LEG)
    assert world.sink().read_ledger(given_up) is None


@behaviour
def a_publish_of_fewer_tables_lets_the_others_leave(world: World) -> None:
    stream = carrying(world, ACCOUNT, TRANSFER, AUDIT)
    stream.span(insert(TRANSFER, **LEG), insert(AUDIT, **CALL))
    world.plan = sync_plan((ACCOUNT,))
    again = publication((ACCOUNT,), run_id="run-2", covered=50, next_offset=70)
    after = world.sink().publish(STREAM, [world.load(ACCOUNT, [account(3)])], publication=again)
    assert boundaries(after.ledger.boundaries) == {("account", 2)}
    assert (world.rows(TRANSFER), world.rows(AUDIT)) == ([], [])
    Applying(world).span(insert(ACCOUNT, **account(4)))
    back = world.sink().join(STREAM, passed(world, TRANSFER, AUDIT, rows=[], at=80))
    assert boundaries(back.ledger.boundaries) == {("account", 2), ("transfer", 2), ("audit", 2)}
