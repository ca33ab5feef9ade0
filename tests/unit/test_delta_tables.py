"""Delta tables and a ledger that follows them: what is ahead is undone, and an owner that is over writes no version."""

import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.errors import (
    CommitUnknown,
    Diverged,
    Fenced,
    Refused,
    SchemaConflict,
    SeamlineError,
    TransientError,
)
from seamline.sinks.delta import tables as tables_module
from seamline.sinks.delta.cuts import VersionsAsTags
from seamline.sinks.delta.log import DeltaLog
from seamline.sinks.delta.pointer import Pointer, folder_of_number, version_of
from seamline.sinks.delta.state import Action, addition, difference, removal
from seamline.sinks.delta.tables import DeltaTables
from seamline.sinks.lake.tagging import TableTags, Tag
from seamline.values.digest import row_texts
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.lake_worlds import DELTA, MemoryCatalogueWorld
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, Change, delete, insert, publication, update
from tests.memory_sink import LostAnswer

# Two tables of a span, so that one of them is written before the other.
SPAN: Sequence[Change] = (insert(ACCOUNT, **account(2)), delete(AUDIT, actor="x", action="y"))


@pytest.fixture
def world(tmp_path: Path) -> MemoryCatalogueWorld:
    return MemoryCatalogueWorld(TABLES, tmp_path, lake=DELTA)


def pointer(world: MemoryCatalogueWorld, table: str) -> Pointer:
    return Pointer.parsed(world.seen().heads[table])


def log_of(world: MemoryCatalogueWorld, table: str) -> DeltaLog:
    return DeltaLog(pointer(world, table).folder)


def at_head(world: MemoryCatalogueWorld, table: str) -> list[str]:
    """As somebody reads it who does not ask the ledger."""
    definition, head = next(one for one in TABLES if one.name == table), log_of(world, table).newest()
    at = Pointer(pointer(world, table).folder, head.version)
    return sorted(
        text for batch in DELTA.live(definition, at.text)() for text in row_texts(definition, batch).to_pylist()
    )


def at_ledger(world: MemoryCatalogueWorld, table: str) -> list[str]:
    return texts_at(table, world.seen().heads[table])


def texts_at(table: str, location: str) -> list[str]:
    definition = next(one for one in TABLES if one.name == table)
    batches = DELTA.live(definition, location)()
    return sorted(text for batch in batches for text in row_texts(definition, batch).to_pylist())


def begun(world: MemoryCatalogueWorld) -> Applying:
    stream = published(world)
    stream.span(
        insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"), insert(TRANSFER, tx=1, leg=1, amount="1")
    )
    return stream


class Ending:
    """Failpoints at which something happens once: at the nth place that is reached."""

    def __init__(self, at: int, happens: Callable[[], object]) -> None:
        self.at, self._happens, self.reached = at, happens, 0

    def reach(self, name: str) -> None:  # noqa: ARG002
        self.reached += 1
        if self.reached == self.at:
            self._happens()


class Beside:
    """A store beside which something happens: before a commit of the ledger, or after a look."""

    def __init__(self, world: MemoryCatalogueWorld, *, looked: Callable[[], object] | None = None) -> None:
        self._store, self.looked, self.committing = world.store(), looked, None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def look(self, *given: Any) -> Any:
        found = self._store.look(*given)
        if self.looked is not None:
            looked, self.looked = self.looked, None
            looked()
        return found


def killed() -> None:
    raise TransientError("as a worker that dies")


# ---- versions that the ledger does not name -------------------------------------------------------------------------


# The places of a commit over two tables: one is staged, one is in its log, both are, the ledger's commit is half done.
@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_what_a_killed_worker_has_written_is_undone_and_the_span_may_be_formed_otherwise(
    world: MemoryCatalogueWorld, place: int
) -> None:
    begun(world)
    before = {table.name: at_ledger(world, table.name) for table in TABLES}
    dying = Ending(place, killed)
    with pytest.raises(TransientError, match="dies"):
        Applying(world, sink=world.sink(failpoints=dying)).span(*SPAN)
    assert {table.name: at_ledger(world, table.name) for table in TABLES} == before
    again = Applying(world)
    assert {table.name: at_head(world, table.name) for table in TABLES} == before, (
        "also for who does not ask the ledger"
    )
    again.span(SPAN[0])
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert world.rows(AUDIT) == texts({"actor": "x", "action": "y"})


def test_a_version_whose_ledger_was_committed_is_kept_and_one_whose_was_not_is_undone(
    world: MemoryCatalogueWorld,
) -> None:
    begun(world)
    for lost, expected in ((LostAnswer.NOT_APPLIED, [account(1)]), (LostAnswer.APPLIED, [account(1), account(2)])):
        stream = Applying(world, sink=world.sink_losing_its_answer(lost))
        with pytest.raises(CommitUnknown):
            stream.span(SPAN[0])
        Applying(world)
        assert world.rows(ACCOUNT) == texts(*expected)
        assert at_head(world, "account") == at_ledger(world, "account")


def test_a_span_that_is_tried_again_by_its_own_owner_undoes_what_it_had_written(world: MemoryCatalogueWorld) -> None:
    begun(world)
    stream = Applying(world, sink=world.sink(failpoints=Ending(2, killed)))
    with pytest.raises(TransientError, match="dies"):
        stream.span(*SPAN)
    stream.span(SPAN[0])
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert at_head(world, "account") == at_ledger(world, "account")


def test_after_any_ends_all_tables_are_the_model_at_the_ledger_s_versions(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_module, "CHECKPOINT_EVERY", 5)
    dice, model = random.Random(11), Counter[int]()
    published(world)
    stream, states = Applying(world), list[tuple[dict[str, str], list[str]]]()
    for number in range(30):
        keys = dice.sample(range(12), 3)
        changes = [
            delete(ACCOUNT, **account(key, f"n{key}")) if model[key] else insert(ACCOUNT, **account(key, f"n{key}"))
            for key in keys
        ]
        beside = [insert(TRANSFER, tx=number, leg=1, amount="1"), insert(AUDIT, actor="x", action=f"{number}")]
        ends = dice.choice(["", "", "killed", "lost", "unsent"])
        sink = {
            "killed": lambda: world.sink(failpoints=Ending(dice.randrange(1, 6), killed)),
            "lost": lambda: world.sink_losing_its_answer(LostAnswer.APPLIED),
            "unsent": lambda: world.sink_losing_its_answer(LostAnswer.NOT_APPLIED),
        }.get(ends, world.sink)()
        if ends or dice.random() < 0.2:
            world.database.lose_answer = None
            stream = Applying(world, sink=sink)
            if ends in ("lost", "unsent"):
                world.database.lose_answer = LostAnswer.APPLIED if ends == "lost" else LostAnswer.NOT_APPLIED
        before = world.seen().ledger
        try:
            stream.span(*changes, *beside)
        except (TransientError, CommitUnknown):
            stream = Applying(world)
        after = world.seen().ledger
        assert before is not None
        assert after is not None
        if after.next_offset > before.next_offset:
            model.update({key: -1 if model[key] else 1 for key in keys})
        expected = texts(*(account(key, f"n{key}") for key in model if model[key]))
        assert world.rows(ACCOUNT) == expected
        assert len(world.rows(TRANSFER)) == len(world.rows(AUDIT)), "all of a span or nothing"
        states.append((dict(world.seen().heads), at_ledger(world, "account")))
    for heads, rows in states:
        assert texts_at("account", heads["account"]) == rows


# ---- owners that are over -------------------------------------------------------------------------------------------


def an_owner_that_is_over_writes_no_version(world: MemoryCatalogueWorld, when: str) -> None:
    """Its stream is taken while it works: after it looked at the ledger, or once its files are staged."""
    begun(world)
    store, taken = Beside(world), list[Applying]()

    def take() -> None:
        taken.append(Applying(world))

    over = Applying(world, sink=world.sink_over(store, failpoints=Ending(1, take) if when == "staged" else None))  # type: ignore[arg-type]
    store.looked = take if when == "looked" else None
    before = {name: at_head(world, name) for name in ("account", "audit")}
    with pytest.raises(Fenced):
        over.span(*SPAN)
    assert len(taken) == 1
    assert {name: at_head(world, name) for name in ("account", "audit")} == before
    taken[0].span(*SPAN)
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert at_head(world, "account") == at_ledger(world, "account")


@pytest.mark.parametrize("when", ["looked", "staged"])
def test_an_owner_whose_stream_is_taken_while_it_works_writes_no_version(
    world: MemoryCatalogueWorld, when: str
) -> None:
    an_owner_that_is_over_writes_no_version(world, when)


def no_number_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DeltaTables, "take_over", lambda *_, **__: None)


def a_table_that_is_ahead_is_skipped(patch: pytest.MonkeyPatch) -> None:
    """As a sink by transaction numbers does it: a version of this stream stays, whatever span it was of."""
    patch.setattr(tables_module, "_examined", lambda log, base, head, stream: tables_module._Ahead(head))  # noqa: ARG005, SLF001


def test_the_suite_catches_a_zombie_s_delta_version(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_number_is_taken(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        an_owner_that_is_over_writes_no_version(world, "staged")


def test_the_suite_catches_a_table_that_is_ahead_and_is_skipped(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_table_that_is_ahead_is_skipped(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        test_what_a_killed_worker_has_written_is_undone_and_the_span_may_be_formed_otherwise(world, 2)


# ---- somebody else --------------------------------------------------------------------------------------------------


def written_by_somebody(world: MemoryCatalogueWorld, *, data_change: bool) -> None:
    """Take the files of `account` out and, where it is a compaction, put them in again under other names."""
    log = log_of(world, "account")
    state = log.newest()
    actions: list[Action] = [{"commitInfo": {"operation": "OPTIMIZE" if not data_change else "DELETE"}}]
    for file in state.files.values():
        actions.append({"remove": {**removal(file)["remove"], "dataChange": data_change}})
        if not data_change:
            copied = file.path_in(log.folder).with_name(f"theirs-{state.version}-{file.path_in(log.folder).name}")
            copied.hardlink_to(file.path_in(log.folder))
            path = str(copied.relative_to(log.folder))
            actions.append({"add": {**addition(file)["add"], "path": path, "dataChange": False}})
    log.put(state.version + 1, actions)


def test_rows_that_somebody_else_has_changed_stop_the_stream_and_are_a_finding(world: MemoryCatalogueWorld) -> None:
    stream = begun(world)
    written_by_somebody(world, data_change=True)
    for attempt in (lambda: stream.span(insert(ACCOUNT, **account(2))), lambda: world.sink().acquire(STREAM)):
        with pytest.raises(Diverged, match="account: DELETE of version") as raised:
            attempt()
        assert "RESTORE TABLE" in str(raised.value.hint)
    assert {(one.table, one.kind) for one in world.findings()} == {("account", "foreign write")}
    log, at = log_of(world, "account"), pointer(world, "account").version
    head = log.newest()
    log.put(head.version + 1, [{"commitInfo": {"operation": "RESTORE"}}, *difference(head, log.at(at))])
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2)), "what is put back is gone on from"


def test_rows_of_somebody_else_stop_the_stream_also_where_a_version_of_its_own_is_to_be_undone(
    world: MemoryCatalogueWorld,
) -> None:
    begun(world)
    with pytest.raises(TransientError, match="dies"):
        Applying(world, sink=world.sink(failpoints=Ending(2, killed))).span(*SPAN)
    written_by_somebody(world, data_change=True)
    with pytest.raises(Diverged, match="DELETE of version"):
        Applying(world)


def test_rows_that_somebody_else_writes_behind_the_look_at_the_table_are_not_gone_on_from(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = begun(world)
    monkeypatch.setattr(DeltaTables, "foreign", lambda *_: "")
    written_by_somebody(world, data_change=True)
    with pytest.raises(TransientError, match="somebody else has just written account"):
        stream.span(insert(ACCOUNT, **account(2)))
    monkeypatch.undo()
    with pytest.raises(Diverged, match="DELETE of version"):
        Applying(world)


def test_a_load_mends_what_somebody_else_has_done(world: MemoryCatalogueWorld) -> None:
    begun(world)
    written_by_somebody(world, data_change=True)
    fresh = [world.load(table, [account(5)] if table is ACCOUNT else []) for table in TABLES]
    world.sink().publish(STREAM, fresh, publication=publication(run_id="run-2"))
    Applying(world).span(insert(ACCOUNT, **account(6)))
    assert world.rows(ACCOUNT) == texts(account(5), account(6))


def test_a_compaction_is_gone_on_from_wherever_it_comes(world: MemoryCatalogueWorld) -> None:
    stream = begun(world)
    written_by_somebody(world, data_change=False)
    stream.span(insert(ACCOUNT, **account(2)), delete(ACCOUNT, **account(1)))
    with pytest.raises(TransientError, match="dies"):
        Applying(world, sink=world.sink(failpoints=Ending(2, killed))).span(insert(ACCOUNT, **account(3)), SPAN[1])
    written_by_somebody(world, data_change=False)
    again = Applying(world)
    assert world.rows(ACCOUNT) == texts(account(2))
    assert at_head(world, "account") == at_ledger(world, "account")
    again.span(insert(ACCOUNT, **account(4)))
    assert world.rows(ACCOUNT) == texts(account(2), account(4))
    assert world.findings() == []


# ---- folders --------------------------------------------------------------------------------------------------------


def test_a_table_lies_where_people_look_for_it(world: MemoryCatalogueWorld, tmp_path: Path) -> None:
    begun(world)
    assert pointer(world, "account").folder == tmp_path / "settlement" / "account"
    assert world.seen().snapshots["account"] == pointer(world, "account").version


def test_a_folder_of_somebody_else_is_not_taken_over(world: MemoryCatalogueWorld, tmp_path: Path) -> None:
    (tmp_path / "settlement" / "account").mkdir(parents=True)
    with pytest.raises(Refused, match="did not make it"):
        published(world)


def test_a_publish_that_was_killed_before_its_ledger_is_repeated_in_the_same_folder(
    world: MemoryCatalogueWorld,
) -> None:
    loads = [world.load(table, [account(1)] if table is ACCOUNT else []) for table in TABLES]
    sink = world.sink(failpoints=Ending(1, killed))
    with pytest.raises(TransientError, match="dies"):
        sink.publish(STREAM, loads, publication=publication())
    assert world.seen().heads == {}
    world.sink().publish(STREAM, loads, publication=publication())
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert (pointer(world, "account").folder.name, pointer(world, "account").version) == ("account", 3)
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


def test_a_table_that_comes_again_after_it_left_is_another_one_with_numbers_of_its_own(
    world: MemoryCatalogueWorld, tmp_path: Path
) -> None:
    begun(world)
    first = world.seen().snapshots["account"]
    world.sink().publish(
        STREAM,
        [world.load(table, []) for table in TABLES[1:]],
        publication=publication(TABLES[1:], run_id="run-2"),
    )
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES], publication=publication(run_id="run-3"))
    again = pointer(world, "account")
    assert (again.folder.name, again.version) == ("account.2", 0)
    second = world.seen().snapshots["account"]
    assert (second, version_of(second)) == (2**32, 0)
    assert folder_of_number(str(tmp_path), "settlement", "account", first).name == "account"
    assert folder_of_number(str(tmp_path), "settlement", "account", second) == again.folder
    assert again.at_number(second) == again
    with pytest.raises(Refused, match="left its sync"):
        again.at_number(first)


def test_a_cut_holds_nothing_of_a_table_that_has_left_and_come_again(world: MemoryCatalogueWorld) -> None:
    """While the cut waited for a signature."""
    begun(world)
    heads, tags = world.seen().heads, VersionsAsTags()
    held = TableTags([Tag("cut_20261128_v1", tags.heads(heads)["account"], datetime.now(UTC))])
    assert tags.staged("account", heads["account"], held, mark="cut") is None
    left = publication(TABLES[1:], run_id="run-2")
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES[1:]], publication=left)
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES], publication=publication(run_id="run-3"))
    with pytest.raises(Refused, match="table account: its version .* is gone"):
        tags.staged("account", world.seen().heads["account"], held, mark="cut")
    over = TableTags(dropped=["cut_20261128_v1"])
    assert tags.staged("account", world.seen().heads["account"], over, mark="cut") is None


# Two names that make one folder's name.
ALIKE = (replace(ACCOUNT, name="a b"), replace(ACCOUNT, name="a-b"))


def test_two_tables_whose_names_make_one_folder_s_name_lie_in_two(tmp_path: Path) -> None:
    world = MemoryCatalogueWorld(ALIKE, tmp_path, lake=DELTA)
    loads = [world.load(table, [account(number)]) for number, table in enumerate(ALIKE)]
    world.sink().publish(STREAM, loads, publication=publication(ALIKE))
    assert [pointer(world, table.name).folder.name for table in ALIKE] == ["a-b", "a-b.2"]
    assert [world.rows(table) for table in ALIKE] == [texts(account(0)), texts(account(1))]


def test_a_folder_of_a_table_of_another_name_is_passed_over(tmp_path: Path) -> None:
    world = MemoryCatalogueWorld(ALIKE, tmp_path, lake=DELTA)
    loads = [world.load(table, [account(number)]) for number, table in enumerate(ALIKE)]
    with pytest.raises(TransientError, match="dies"):
        world.sink(failpoints=Ending(1, killed)).publish(STREAM, loads[:1], publication=publication(ALIKE[:1]))
    world.sink().publish(STREAM, loads[1:], publication=publication(ALIKE[1:], run_id="run-2"))
    assert pointer(world, "a-b").folder.name == "a-b.2"
    assert world.rows(ALIKE[1]) == texts(account(1))


def test_a_live_table_of_another_schema_is_not_written(world: MemoryCatalogueWorld) -> None:
    published(world)
    log = log_of(world, "account")
    metadata = dict(log.newest().metadata)
    schema = json.loads(metadata["schemaString"])
    schema["fields"][1]["type"] = "long"
    log.put(log.newest().version + 1, [{"metaData": {**metadata, "schemaString": json.dumps(schema)}}])
    loads = [world.load(table, []) for table in TABLES]
    with pytest.raises(SchemaConflict, match="other columns than a load brings: name"):
        world.sink().publish(STREAM, loads, publication=publication(run_id="run-2"))


def test_an_update_leaves_the_rows_of_earlier_versions_to_who_reads_them(world: MemoryCatalogueWorld) -> None:
    stream = begun(world)
    earlier = world.seen().heads["account"]
    stream.span(update(ACCOUNT, account(1), account(1, "b")))
    assert [row for batch in DELTA.live(ACCOUNT, earlier)() for row in batch.to_pylist()] == [account(1)]
    assert world.rows(ACCOUNT) == texts(account(1, "b"))
