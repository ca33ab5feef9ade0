"""Hudi tables and a ledger that follows them: what is ahead is undone, and an owner that is over commits nothing."""

import json
import random
import shutil
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
from seamline.sinks.hudi import instants, placing
from seamline.sinks.hudi import tables as tables_module
from seamline.sinks.hudi.cuts import InstantsAsTags
from seamline.sinks.hudi.pointer import Pointer, pointer_of
from seamline.sinks.hudi.state import TableState
from seamline.sinks.hudi.tables import HudiTables
from seamline.sinks.hudi.timeline import Timeline
from seamline.sinks.lake.tagging import TableTags, Tag
from seamline.values.digest import row_texts
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.lake_worlds import HUDI, MemoryCatalogueWorld
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, Change, delete, insert, publication, update
from tests.memory_sink import LostAnswer

# Two tables of a span, so that one of them is written before the other.
SPAN: Sequence[Change] = (insert(ACCOUNT, **account(2)), delete(AUDIT, actor="x", action="y"))


@pytest.fixture
def world(tmp_path: Path) -> MemoryCatalogueWorld:
    return MemoryCatalogueWorld(TABLES, tmp_path, lake=HUDI)


def pointer(world: MemoryCatalogueWorld, table: str) -> Pointer:
    return Pointer.parsed(world.seen().heads[table])


def timeline_of(world: MemoryCatalogueWorld, table: str) -> Timeline:
    return Timeline(pointer(world, table).folder)


def texts_at(table: str, location: str) -> list[str]:
    definition = next(one for one in TABLES if one.name == table)
    batches = HUDI.live(definition, location)()
    return sorted(text for batch in batches for text in row_texts(definition, batch).to_pylist())


def at_head(world: MemoryCatalogueWorld, table: str) -> list[str]:
    """As Hudi's readers do who do not ask the ledger: files whose instant is in the timeline and that no commit there
    has replaced."""
    timeline = timeline_of(world, table)
    commits = [json.loads((timeline.path / name).read_text()) for name in timeline.commits()]
    replaced = {one for found in commits for ids in found["partitionToReplaceFileIds"].values() for one in ids}
    committed = set(timeline.commits().values())
    names = [path.name for path in timeline.folder.glob("*.parquet")]
    seen = {name for name in names if int(name[-25:-8]) in committed and name.split("_", 1)[0] not in replaced}
    newest = timeline.at(max(committed))
    assert seen == newest.files.keys(), "what Hudi finds by names is what the newest commit says"
    return texts_at(table, Pointer(timeline.folder, newest.instant).text)


def at_ledger(world: MemoryCatalogueWorld, table: str) -> list[str]:
    return texts_at(table, world.seen().heads[table])


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
    """A store beside which something happens, after a look."""

    def __init__(self, world: MemoryCatalogueWorld) -> None:
        self._store, self.looked = world.store(), None

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


# ---- instants that the ledger does not name -------------------------------------------------------------------------


# The places of a commit over two tables: one is staged, one is in its timeline, both are, the ledger's is half done.
@pytest.mark.parametrize("place", [1, 2, 3, 4])
def test_what_a_killed_worker_has_written_is_undone_and_the_span_may_be_formed_otherwise(
    world: MemoryCatalogueWorld, place: int
) -> None:
    begun(world)
    before = {table.name: at_ledger(world, table.name) for table in TABLES}
    with pytest.raises(TransientError, match="dies"):
        Applying(world, sink=world.sink(failpoints=Ending(place, killed))).span(*SPAN)
    assert {table.name: at_ledger(world, table.name) for table in TABLES} == before
    again = Applying(world)
    found = {table.name: at_head(world, table.name) for table in TABLES}
    assert found == before, "also for who does not ask the ledger"
    again.span(SPAN[0])
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert world.rows(AUDIT) == texts({"actor": "x", "action": "y"})


def test_a_worker_that_dies_before_hudi_s_timeline_has_its_commit_has_it_shown_and_undone(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(world)
    before = at_ledger(world, "account")
    monkeypatch.setattr(Timeline, "_show", lambda *_: killed())
    with pytest.raises(TransientError, match="dies"):
        Applying(world).span(SPAN[0])
    monkeypatch.undo()
    again = Applying(world)
    assert at_head(world, "account") == before
    again.span(SPAN[0])
    assert at_head(world, "account") == at_ledger(world, "account")
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


def test_an_instant_whose_ledger_was_committed_is_kept_and_one_whose_was_not_is_undone(
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


def test_after_any_ends_all_tables_are_the_model_at_the_ledger_s_instants(world: MemoryCatalogueWorld) -> None:
    dice, model = random.Random(11), Counter[int]()
    published(world)
    stream, states = Applying(world), list[tuple[dict[str, str], list[str]]]()
    for number in range(40):
        keys = dice.sample(range(12), 3)
        changes = [
            delete(ACCOUNT, **account(key, f"n{key}")) if model[key] else insert(ACCOUNT, **account(key, f"n{key}"))
            for key in keys
        ]
        beside = [insert(TRANSFER, tx=number, leg=1, amount="1"), insert(AUDIT, actor="x", action=f"{number}")]
        ends = dice.choice(["", "", "killed", "lost", "unsent"])
        world.database.lose_answer = None
        failpoints = Ending(dice.randrange(1, 6), killed) if ends == "killed" else None
        if ends or dice.random() < 0.2:
            stream = Applying(world, sink=world.sink(failpoints=failpoints))
        world.database.lose_answer = {"lost": LostAnswer.APPLIED, "unsent": LostAnswer.NOT_APPLIED}.get(ends)
        before = world.seen().ledger
        try:
            stream.span(*changes, *beside)
        except (TransientError, CommitUnknown):
            world.database.lose_answer = None
            stream = Applying(world)
        after = world.seen().ledger
        assert before is not None
        assert after is not None
        if after.next_offset > before.next_offset:
            model.update({key: -1 if model[key] else 1 for key in keys})
        assert world.rows(ACCOUNT) == texts(*(account(key, f"n{key}") for key in model if model[key]))
        assert len(world.rows(TRANSFER)) == len(world.rows(AUDIT)), "all of a span or nothing"
        assert {name: at_head(world, name) for name in ("account", "audit")} == {
            name: at_ledger(world, name) for name in ("account", "audit")
        }
        states.append((dict(world.seen().heads), at_ledger(world, "account")))
    for heads, rows in states:
        assert texts_at("account", heads["account"]) == rows


# ---- owners that are over -------------------------------------------------------------------------------------------


def an_owner_that_is_over_commits_nothing(world: MemoryCatalogueWorld, when: str) -> None:
    """Its stream is taken while it works: after it looked at the ledger, or once its files are staged."""
    begun(world)
    store, taken = Beside(world), list[Applying]()

    def take() -> None:
        taken.append(Applying(world))

    failpoints = Ending(1, take) if when == "staged" else None
    over = Applying(world, sink=world.sink_over(store, failpoints=failpoints))  # type: ignore[arg-type]
    store.looked = take if when == "looked" else None  # type: ignore[assignment]
    before = {name: at_head(world, name) for name in ("account", "audit")}
    with pytest.raises(Fenced):
        over.span(*SPAN)
    assert len(taken) == 1
    assert {name: at_head(world, name) for name in ("account", "audit")} == before
    taken[0].span(*SPAN)
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert at_head(world, "account") == at_ledger(world, "account")


@pytest.mark.parametrize("when", ["looked", "staged"])
def test_an_owner_whose_stream_is_taken_while_it_works_commits_nothing(world: MemoryCatalogueWorld, when: str) -> None:
    an_owner_that_is_over_commits_nothing(world, when)


def left_by_a_frozen_owner(world: MemoryCatalogueWorld) -> None:
    """Its data files, and no number: it is frozen for good between the two."""
    over = Applying(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Timeline, "put", lambda *_: killed())
        with pytest.raises(TransientError, match="dies"):
            over.span(SPAN[0])


def test_files_that_a_frozen_owner_leaves_are_of_an_instant_that_nobody_reads(world: MemoryCatalogueWorld) -> None:
    begun(world)
    left_by_a_frozen_owner(world)
    stream = Applying(world)
    stream.span(SPAN[0])
    assert at_head(world, "account") == at_ledger(world, "account")
    timeline = timeline_of(world, "account")
    assert len(list(timeline.folder.glob("*.parquet"))) == 1 + len(timeline.at(pointer(world, "account").instant).files)


def test_one_instant_is_never_two_writers_whatever_their_clocks_say(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(world)
    timeline, at = timeline_of(world, "account"), pointer(world, "account").instant
    monkeypatch.setattr(instants, "now", lambda: 20200101000000000)
    found = [timeline.reserve(at) for _ in range(5)]
    assert found == sorted(set(found))
    assert found[0] > at, "behind the newest one, also where the clock went back"
    assert timeline.reserve(20261231235959999) == 20270101000000000
    timeline.reservation(at).unlink()
    assert timeline.reserve(at - 1) not in (at, *found), "nor one that is committed and whose reservation is gone"


def no_number_is_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HudiTables, "take_over", lambda *_, **__: None)


def a_table_that_is_ahead_is_gone_on_from(patch: pytest.MonkeyPatch) -> None:
    right = Timeline.head

    def head(self: Timeline) -> tuple[int, TableState]:
        number, state = right(self)
        return number, tables_module.replace(state, rows_of=0)

    patch.setattr(Timeline, "head", head)
    patch.setattr(Timeline, "at", lambda self, _: head(self)[1])


def an_instant_is_taken_by_the_clock_alone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timeline, "reserve", lambda _, after: after + 1)


def test_the_suite_catches_a_zombie_s_commit(world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    no_number_is_taken(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        an_owner_that_is_over_commits_nothing(world, "staged")


def test_the_suite_catches_a_table_that_is_ahead_and_is_gone_on_from(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_table_that_is_ahead_is_gone_on_from(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        test_what_a_killed_worker_has_written_is_undone_and_the_span_may_be_formed_otherwise(world, 2)


def test_the_suite_catches_two_writers_of_one_instant(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    an_instant_is_taken_by_the_clock_alone(monkeypatch)
    with pytest.raises(AssertionError, match="what Hudi finds by names"):
        test_files_that_a_frozen_owner_leaves_are_of_an_instant_that_nobody_reads(world)


# ---- somebody else --------------------------------------------------------------------------------------------------


def written_by_somebody(world: MemoryCatalogueWorld) -> Path:
    """As Spark's INSERT leaves a table of this version."""
    timeline = timeline_of(world, "account")
    path = timeline.path / f"{timeline.reserve(pointer(world, 'account').instant)}.commit"
    path.write_text(json.dumps({"partitionToWriteStats": {}, "extraMetadata": {"schema": ""}}))
    return path


def test_a_commit_of_somebody_else_stops_the_stream_and_is_a_finding(world: MemoryCatalogueWorld) -> None:
    stream = begun(world)
    theirs = written_by_somebody(world)
    for attempt in (lambda: stream.span(insert(ACCOUNT, **account(2))), lambda: world.sink().acquire(STREAM)):
        with pytest.raises(Diverged, match=rf"account: commit {theirs.name}") as raised:
            attempt()
        assert "rollback_to_instant" in str(raised.value.hint)
    assert {(one.table, one.kind) for one in world.findings()} == {("account", "foreign write")}
    theirs.unlink()
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2)), "what is taken back is gone on from"


@pytest.mark.parametrize(("action", "loses_a_file"), [("clean", False), ("rollback", True), ("restore", True)])
def test_what_takes_files_from_the_table_stops_the_stream_and_is_a_finding(
    world: MemoryCatalogueWorld, action: str, *, loses_a_file: bool
) -> None:
    stream = begun(world)
    timeline = timeline_of(world, "account")
    theirs = timeline.path / f"{timeline.reserve(pointer(world, 'account').instant)}.{action}"
    theirs.write_bytes(b"Avro")
    if loses_a_file:
        (timeline.folder / next(iter(timeline.newest().files))).unlink()
    for attempt in (lambda: stream.span(insert(ACCOUNT, **account(2))), lambda: world.sink().acquire(STREAM)):
        with pytest.raises(Diverged, match=rf"account: action {theirs.name}"):
            attempt()
    assert {(one.table, one.kind) for one in world.findings()} == {("account", "foreign write")}


@pytest.mark.parametrize("action", ["rollback", "restore"])
def test_what_took_back_a_commit_of_somebody_else_does_not_stop_the_stream(
    world: MemoryCatalogueWorld, action: str
) -> None:
    stream = begun(world)
    timeline = timeline_of(world, "account")
    (timeline.path / f"{timeline.reserve(pointer(world, 'account').instant)}.{action}").write_bytes(b"Avro")
    stream.span(insert(ACCOUNT, **account(2)))
    Applying(world).span(insert(ACCOUNT, **account(3)))
    assert world.rows(ACCOUNT) == texts(account(1), account(2), account(3))


def test_a_table_that_somebody_has_upgraded_is_not_written(world: MemoryCatalogueWorld) -> None:
    begun(world)
    path = timeline_of(world, "account").path / "hoodie.properties"
    path.write_text(path.read_text().replace("table.version=6", "table.version=9"))
    with pytest.raises(Refused, match="another version now"):
        Applying(world)


# ---- folders --------------------------------------------------------------------------------------------------------


def test_a_table_lies_where_people_look_for_it(world: MemoryCatalogueWorld, tmp_path: Path) -> None:
    begun(world)
    assert pointer(world, "account").folder == tmp_path / "settlement" / "account"
    assert world.seen().snapshots["account"] == pointer(world, "account").instant


def test_a_folder_of_somebody_else_is_not_taken_over(world: MemoryCatalogueWorld, tmp_path: Path) -> None:
    (tmp_path / "settlement" / "account").mkdir(parents=True)
    with pytest.raises(Refused, match="did not make it"):
        published(world)


def test_a_publish_that_was_killed_before_its_ledger_is_repeated_in_the_same_folder(
    world: MemoryCatalogueWorld,
) -> None:
    loads = [world.load(table, [account(1)] if table is ACCOUNT else []) for table in TABLES]
    with pytest.raises(TransientError, match="dies"):
        world.sink(failpoints=Ending(1, killed)).publish(STREAM, loads, publication=publication())
    assert world.seen().heads == {}
    world.sink().publish(STREAM, loads, publication=publication())
    Applying(world).span(insert(ACCOUNT, **account(2)))
    assert pointer(world, "account").folder.name == "account"
    assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert at_head(world, "account") == at_ledger(world, "account")


def test_a_table_that_comes_again_after_it_left_is_another_one_with_later_instants(
    world: MemoryCatalogueWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun(world)
    first = world.seen().snapshots["account"]
    left = publication(TABLES[1:], run_id="run-2")
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES[1:]], publication=left)
    monkeypatch.setattr(instants, "now", lambda: 20200101000000000)
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES], publication=publication(run_id="run-3"))
    again = pointer(world, "account")
    assert again.folder.name == "account.2"
    assert again.instant > first, "no instant of a table's name ever means another table"
    assert pointer_of(str(tmp_path), "settlement", "account", again.instant) == again
    earlier = pointer_of(str(tmp_path), "settlement", "account", first)
    assert earlier is not None
    assert earlier.folder.name == "account"
    assert pointer_of(str(tmp_path), "settlement", "account", 1) is None


def test_a_table_is_found_though_the_folder_of_the_one_before_it_is_gone(
    world: MemoryCatalogueWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def comes_again(run_id: str) -> Pointer:
        left = publication(TABLES[1:], run_id=f"{run_id} without")
        world.sink().publish(STREAM, [world.load(table, []) for table in TABLES[1:]], publication=left)
        with world.database.transaction() as state:
            for gone in [one for one in state.heads if one[1].startswith("account")]:
                del state.heads[gone]
        loads = [world.load(table, []) for table in TABLES]
        world.sink().publish(STREAM, loads, publication=publication(run_id=run_id))
        return pointer(world, "account")

    begun(world)
    # As long as a row leads to the first folder, it is not taken again.
    left = publication(TABLES[1:], run_id="run-2")
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES[1:]], publication=left)
    loads = [world.load(table, []) for table in TABLES]
    world.sink().publish(STREAM, loads, publication=publication(run_id="run-3"))
    second = pointer(world, "account")
    assert second.folder.name == "account.2"
    shutil.rmtree(tmp_path / "settlement" / "account")
    assert pointer_of(str(tmp_path), "settlement", "account", second.instant) == second
    monkeypatch.setattr(instants, "now", lambda: 20200101000000000)
    third = comes_again("run-4")
    assert third.folder.name == "account"
    assert third.instant > second.instant, "also behind what lies in a later folder"
    assert pointer_of(str(tmp_path), "settlement", "account", second.instant) == second


def test_a_cut_holds_nothing_of_a_table_that_has_left_and_come_again(world: MemoryCatalogueWorld) -> None:
    """While the cut waited for a signature."""
    begun(world)
    heads, tags = world.seen().heads, InstantsAsTags()
    held = TableTags([Tag("cut_20261128_v1", tags.heads(heads)["account"], datetime.now(UTC))])
    assert tags.staged("account", heads["account"], held, mark="cut") is None
    left = publication(TABLES[1:], run_id="run-2")
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES[1:]], publication=left)
    world.sink().publish(STREAM, [world.load(table, []) for table in TABLES], publication=publication(run_id="run-3"))
    with pytest.raises(Refused, match="table account: its instant .* is gone"):
        tags.staged("account", world.seen().heads["account"], held, mark="cut")
    over = TableTags(dropped=["cut_20261128_v1"])
    assert tags.staged("account", world.seen().heads["account"], over, mark="cut") is None


# Two names that make one folder's name.
ALIKE = (replace(ACCOUNT, name="a b"), replace(ACCOUNT, name="a-b"))


def test_two_tables_whose_names_make_one_folder_s_name_lie_in_two(tmp_path: Path) -> None:
    world = MemoryCatalogueWorld(ALIKE, tmp_path, lake=HUDI)
    loads = [world.load(table, [account(number)]) for number, table in enumerate(ALIKE)]
    world.sink().publish(STREAM, loads, publication=publication(ALIKE))
    assert [pointer(world, table.name).folder.name for table in ALIKE] == ["a-b", "a-b.2"]
    assert [world.rows(table) for table in ALIKE] == [texts(account(0)), texts(account(1))]


def test_a_folder_of_a_table_of_another_name_is_passed_over(tmp_path: Path) -> None:
    world = MemoryCatalogueWorld(ALIKE, tmp_path, lake=HUDI)
    loads = [world.load(table, [account(number)]) for number, table in enumerate(ALIKE)]
    with pytest.raises(TransientError, match="dies"):
        world.sink(failpoints=Ending(1, killed)).publish(STREAM, loads[:1], publication=publication(ALIKE[:1]))
    world.sink().publish(STREAM, loads[1:], publication=publication(ALIKE[1:], run_id="run-2"))
    assert pointer(world, "a-b").folder.name == "a-b.2"
    assert world.rows(ALIKE[1]) == texts(account(1))
    instant = pointer(world, "a-b").instant
    assert pointer_of(str(tmp_path), "settlement", "a-b", instant) == pointer(world, "a-b")
    assert pointer_of(str(tmp_path), "settlement", "a b", instant) is None


def test_a_live_table_of_another_schema_is_not_written(
    world: MemoryCatalogueWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(world)
    right = placing.avro_schema
    monkeypatch.setattr(placing, "avro_schema", lambda table: right(table).replace('"string"', '"long"'))
    with pytest.raises(SchemaConflict, match="other columns than a load brings: name"):
        world.sink().publish(
            STREAM, [world.load(table, []) for table in TABLES], publication=publication(run_id="run-2")
        )


def test_an_update_leaves_the_rows_of_earlier_instants_to_who_reads_them(world: MemoryCatalogueWorld) -> None:
    stream = begun(world)
    earlier = world.seen().heads["account"]
    stream.span(update(ACCOUNT, account(1), account(1, "b")))
    assert [row for batch in HUDI.live(ACCOUNT, earlier)() for row in batch.to_pylist()] == [account(1)]
    assert world.rows(ACCOUNT) == texts(account(1, "b"))
