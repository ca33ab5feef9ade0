"""Files of changes: what readers find in them whoever was killed, compaction, retention, and each store."""

import io
import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyspark.sql import SparkSession

from seamline.domain.digest import Segment
from seamline.domain.errors import Fenced, GateFailed, SeamlineError, WentBack
from seamline.files.stores.local import LocalStore
from seamline.files.stores.opening import open_store
from seamline.sinks.files.change_kind import KIND
from seamline.sinks.files.changes import compaction, fold
from seamline.sinks.files.changes.compaction import swap, swaps
from seamline.sinks.files.changes.log import ChangesLog, Seen, open_changes_store
from seamline.sinks.files.changes.options import changes_options
from seamline.values.build import batch_of
from seamline.values.digest import bucket_digests
from tests.contract.behaviours import Applying, account, published, texts
from tests.contract.change_files_world import ChangeFilesWorld
from tests.contract.file_places import Place, Reached
from tests.contract.files_world import Killed, steps_of
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, delete, insert, publication, update

CALL = {"actor": "x", "action": "y"}
NOW = datetime.now(UTC)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., ChangeFilesWorld]:
    return lambda **keys: ChangeFilesWorld(TABLES, tmp_path, **keys)


def read_by_duckdb(world: ChangeFilesWorld, table: str) -> list[dict[str, Any]]:
    """As the page for readers does it."""
    root = Path(world.declared.location)
    newest = max((root / ".seamline/settlement/log").glob("*.json"))
    held = json.loads(newest.read_text())["state"]["streams"][str(STREAM)]["tables"][table]
    paths = [str(root / file["path"]) for file in held["files"]]
    reader = "read_parquet" if held["format"] == "parquet" else "read_csv"
    found = duckdb.sql(f"SELECT * FROM {reader}({paths}) ORDER BY _commit, _order")
    return [dict(zip(found.columns, row, strict=True)) for row in found.fetchall()]


# ---- what readers see -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_change_says_what_happens_to_which_row_in_which_commit_and_where_in_the_log(make: Any, form: str) -> None:
    world = make(format=form)
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, **CALL))
    stream.span(update(ACCOUNT, account(1), account(1, "b")), insert(ACCOUNT, **account(2)), delete(AUDIT, **CALL))
    stream.span(update(ACCOUNT, account(2), account(3, "moved")), delete(ACCOUNT, **account(1, "b")))
    found = read_by_duckdb(world, "account")
    assert [(row["_op"], row["id"], row["name"], row["_commit"], row["_order"]) for row in found] == [
        ("c", 1, "a", 2, 0),
        ("u", 1, "b", 3, 0),
        ("c", 2, "a", 3, 1),
        ("d", 2, None, 4, 0),
        ("c", 3, "moved", 4, 1),
        ("d", 1, None, 4, 2),
    ]
    assert found[0]["_committed_at"].timestamp() == 1_700_000_000
    assert json.loads(found[0]["_position"])["kind"] == "binlog"
    assert all(row["_offset"] is not None for row in found)
    assert [(row["_op"], row["_copies"]) for row in read_by_duckdb(world, "audit")] == [("c", 1), ("d", -1)]
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == (texts(account(3, "moved")), [])


def test_a_change_holds_the_row_before_it_where_that_is_declared(make: Any) -> None:
    world = make(changes={"before_image": True})
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, **CALL))
    stream.span(update(ACCOUNT, account(1), account(1, "b")), update(ACCOUNT, account(1, "b"), account(1, "c")))
    Applying(world).span(delete(ACCOUNT, **account(1, "c")), delete(AUDIT, **CALL))
    found = [(row["_op"], row["_before"]) for row in read_by_duckdb(world, "account")]
    assert [(op, before and json.loads(before)) for op, before in found] == [
        ("c", None),
        ("u", account(1)),
        ("d", account(1, "c")),
    ]
    assert "_before" not in read_by_duckdb(world, "audit")[0]
    assert rows_of_both(world) == ([], [])


def test_the_page_for_readers_gets_the_rows_as_they_stand(make: Any, checkout: Path) -> None:
    world = make()
    emptied_and_filled(changed(world))
    keyed, keyless = blocks_for_readers(checkout, "sql")
    wanted = [(7, "b"), (8, "a")]
    found = duckdb.execute(keyed, {"files": files_by_the_page(checkout, world, "account")}).fetchall()
    assert sorted(row[:2] for row in found) == wanted
    audits = files_by_the_page(checkout, world, "audit")
    assert duckdb.execute(keyless, {"files": audits}).fetchall() == [("x", "y", 11)]


def test_the_page_for_readers_gets_the_same_rows_by_spark(make: Any, checkout: Path, spark: SparkSession) -> None:
    names: dict[str, Any] = {}
    exec(blocks_for_readers(checkout, "python")[1], names)  # noqa: S102

    def read() -> list[tuple[Any, ...]]:
        files = files_by_the_page(checkout, world, "account")
        return sorted(names["rows_as_they_stand"](spark, files, ["id"]).collect())

    world = make()
    stream = changed(world)
    assert read() == [*((number, "b") for number in range(1, 5)), (5, "a")]
    emptied_and_filled(stream)
    assert read() == [(7, "b"), (8, "a")]


def emptied_and_filled(stream: Applying) -> None:
    """TRUNCATE of accounts, and two others in the same commit and the next one."""
    emptied = [replace(one, truncate_first=True) for one in stream.batches(insert(ACCOUNT, **account(7)))]
    staged = [stream.sink.stage(stream.lease, one) for one in emptied]
    stream.next_offset = stream.sink.commit(stream.lease, staged, progress=stream.progress()).ledger.next_offset
    stream.span(insert(ACCOUNT, **account(8)), update(ACCOUNT, account(7), account(7, "b")))


def blocks_for_readers(checkout: Path, language: str) -> list[str]:
    page = (checkout / "docs/how-to/read-change-files.md").read_text(encoding="utf-8")
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


def files_by_the_page(checkout: Path, world: ChangeFilesWorld, table: str) -> list[str]:
    names: dict[str, Any] = {}
    place = blocks_for_readers(checkout, "python")[0]
    place = place.replace("/srv/changes", world.declared.location).replace("settlement@changes", str(STREAM))
    exec(place, names)  # noqa: S102
    found: list[str] = names["change_files"](world.declared.location, str(STREAM), table)
    assert table != "account" or found == names["files"]
    return found


def test_a_truncate_is_a_record_of_its_own(make: Any) -> None:
    world = make()
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    emptied = [replace(one, truncate_first=True) for one in stream.batches(insert(ACCOUNT, **account(2)))]
    staged = [stream.sink.stage(stream.lease, one) for one in emptied]
    stream.sink.commit(stream.lease, staged, progress=stream.progress())
    assert [(row["_op"], row["id"]) for row in read_by_duckdb(world, "account")] == [("c", 1), ("t", None), ("c", 2)]
    assert world.rows(ACCOUNT) == texts(account(2))


def test_a_view_stays_at_its_position_while_the_stream_and_maintenance_go_on(make: Any) -> None:
    world = make(changes={"compact_from_files": 2})
    stream = published(world)
    stream.span(*[insert(ACCOUNT, **account(number)) for number in range(50)])
    ledger = stream.span(insert(AUDIT, **CALL)).ledger
    (view,) = KIND.open_live(world.plan, world.destination, 1)
    with closing(view), closing(world.maintenance()) as maintenance:
        stream.span(*[delete(ACCOUNT, **account(number)) for number in range(50)])
        maintenance.let_go()
        assert len(world.files(ACCOUNT)) == 1
        digests = view.digests(Segment("account", buckets=4), run_key="k")
        assert view.position == ledger.position
    rows = batch_of(ACCOUNT, [(number, "a") for number in range(50)])
    assert digests == bucket_digests(ACCOUNT, rows, buckets=4, run_key="k")


def test_a_file_that_a_store_has_torn_is_found_before_it_counts(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    stream = published(world)
    tear(monkeypatch)
    with pytest.raises(GateFailed, match="sha256"):
        stream.span(insert(ACCOUNT, **account(1)))
    monkeypatch.undo()
    assert world.rows(ACCOUNT) == []


def tear(patch: pytest.MonkeyPatch) -> None:
    """A store that keeps one byte less than it was given, and says nothing."""
    write = LocalStore.write

    def torn(self: LocalStore, path: str, content: Any) -> None:
        write(self, path, content)
        whole = (self._root / path).read_bytes()
        (self._root / path).write_bytes(whole[:-1])

    patch.setattr(LocalStore, "write", torn)


# ---- at least once --------------------------------------------------------------------------------------------------


def test_at_least_once_takes_fewer_calls_and_a_torn_file_is_found_by_the_comparison(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = {}
    for guarantee in ("exactly_once", "at_least_once"):
        world = make(guarantee=guarantee, location=f"{make().declared.location}/{guarantee}")
        Path(world.declared.location).mkdir()
        stream = published(world)
        stream.span(insert(ACCOUNT, **account(1)))
        with monkeypatch.context() as patch:
            calls[guarantee] = counted(patch)
            stream.span(insert(ACCOUNT, **account(2)))
        assert world.rows(ACCOUNT) == texts(account(1), account(2))
    assert calls["at_least_once"] == ["write", "put_if_absent", "names"]
    assert len(calls["exactly_once"]) >= 2 * len(calls["at_least_once"])
    tear(monkeypatch)
    stream.span(insert(ACCOUNT, **account(3)))
    with pytest.raises(GateFailed, match="sha256"):
        world.rows(ACCOUNT)


def test_an_owner_that_slept_until_his_number_was_removed_commits_behind_the_newest(make: Any) -> None:
    world = make(guarantee="at_least_once", changes={"compact_from_files": 3})
    stream = changed(world)
    rows = rows_of_both(world)
    with closing(world.maintenance()) as maintenance:
        maintenance.let_go()
        log = maintenance._log("settlement")
        assert log.compact(keep=1) > 0
    ledger = stream.span(insert(ACCOUNT, **account(20))).ledger
    assert world.state().streams[STREAM].row == ledger
    assert world.rows(ACCOUNT) == sorted([*rows[0], *texts(account(20))])


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_an_owner_whose_place_is_put_back_to_an_older_copy_stops_and_the_next_one_goes_on_from_there(
    make: Any, tmp_path: Path, guarantee: str
) -> None:
    world = make(guarantee=guarantee, location=f"{tmp_path}/place")
    place, backup = Path(world.declared.location), tmp_path / "backup"
    place.mkdir()
    stream = published(world)
    ledger = stream.span(insert(ACCOUNT, **account(1))).ledger
    shutil.copytree(place, backup)
    for number in (2, 3):
        stream.span(insert(ACCOUNT, **account(number)))
    shutil.rmtree(place)
    shutil.copytree(backup, place)
    with pytest.raises(WentBack, match="went back: the ledger of .* stands at offset 10 .* confirmed offset 30"):
        stream.span(insert(ACCOUNT, **account(4)))
    assert world.state().streams[STREAM].row == ledger
    assert world.rows(ACCOUNT) == texts(account(1))
    stream = Applying(world)
    for number in (2, 3, 4):
        stream.span(insert(ACCOUNT, **account(number)))
    assert world.rows(ACCOUNT) == texts(*map(account, range(1, 5)))


def counted(patch: pytest.MonkeyPatch) -> list[str]:
    """The calls of the store from here on."""
    taken: list[str] = []
    for name in ("names", "size", "write", "read", "put_if_absent", "read_put"):
        real = getattr(LocalStore, name)

        def step(*given: Any, _real: Any = real, _name: str = name) -> Any:
            taken.append(_name)
            return _real(*given)

        patch.setattr(LocalStore, name, step)
    return taken


@pytest.mark.parametrize("guarantee", ["exactly_once", "at_least_once"])
def test_a_writer_that_is_killed_before_any_step_leaves_a_span_whole_or_not_at_all(
    make: Any, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    killed_before_any_step(make(guarantee=guarantee), monkeypatch)


def killed_before_any_step(world: ChangeFilesWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    published(world)
    for dies_before in range(20):
        stream = Applying(world)
        before, number = (world.rows(ACCOUNT), world.rows(AUDIT)), dies_before + 1
        changes = (insert(ACCOUNT, **account(number)), insert(AUDIT, actor="x", action=str(number)))
        with monkeypatch.context() as patch:
            taken = steps_of(stream.sink._log.store, patch, dies_before=dies_before)  # type: ignore[attr-defined]
            try:
                stream.span(*changes)
                break
            except Killed:
                assert len(taken) == dies_before
        after = (world.rows(ACCOUNT), world.rows(AUDIT))
        assert after == before
    assert len(world.rows(ACCOUNT)) == len(world.rows(AUDIT)) == 1
    assert dies_before >= 3


# ---- compaction and retention ---------------------------------------------------------------------------------------


def changed(world: ChangeFilesWorld) -> Applying:
    """A table with a key and one without, each with a handful of small files."""
    stream = published(world)
    for number in range(6):
        stream.span(
            insert(ACCOUNT, **account(number)),
            *[update(ACCOUNT, account(number - 1), account(number - 1, "b"))] * (number > 0),
            *[insert(AUDIT, **CALL)] * 2,
        )
    stream.span(delete(ACCOUNT, **account(0, "b")), delete(AUDIT, **CALL))
    return stream


def rows_of_both(world: ChangeFilesWorld) -> tuple[list[str], list[str]]:
    return world.rows(ACCOUNT), world.rows(AUDIT)


def test_small_files_become_one_and_each_change_counts_once_wherever_maintenance_is_killed(
    make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = make(changes={"compact_from_files": 3})
    stream = changed(world)
    rows, changes = rows_of_both(world), read_by_duckdb(world, "account")
    for dies_before in range(40):
        with monkeypatch.context() as patch, closing(world.maintenance()) as maintenance:
            steps_of(maintenance._store, patch, dies_before=dies_before)
            try:
                maintenance.let_go()
                break
            except Killed:
                pass
        assert rows_of_both(world) == rows
        assert read_by_duckdb(world, "account") == changes
    assert dies_before >= 3
    assert (len(world.files(ACCOUNT)), len(world.files(AUDIT))) == (1, 1)
    assert read_by_duckdb(world, "account") == changes
    stream.span(insert(ACCOUNT, **account(9)))
    assert len(world.rows(ACCOUNT)) == len(rows[0]) + 1


def test_a_stream_that_commits_amid_a_compaction_loses_nothing_and_neither_does_the_compaction(make: Any) -> None:
    world = make(changes={"compact_from_files": 3})
    stream = changed(world)
    with closing(open_changes_store(world.destination)) as store:
        log = ChangesLog(store, "settlement")
        seen = log.look()
        due = list(swaps(seen, changes_options(world.destination), now=NOW))
        stream.span(insert(ACCOUNT, **account(20)))
        rows = rows_of_both(world)
        assert [swap(log, seen, one) for one in due] == [7, 7]
        assert (len(world.files(ACCOUNT)), rows_of_both(world)) == (2, rows)
        # Another maintenance had begun with the same files.
        assert [swap(log, seen, one) for one in due] == [0, 0]
    stream.span(insert(ACCOUNT, **account(21)))
    assert len(world.rows(ACCOUNT)) == len(rows[0]) + 1


class _Amid:
    """Failpoints, of which one lets somebody else decide."""

    def __init__(self, name: str, what: Callable[[], Any]) -> None:
        self._name, self._what = name, what

    def reach(self, name: str) -> None:
        if name == self._name:
            self._what()


def test_a_span_whose_number_somebody_else_has_taken_is_decided_behind_it_and_is_there_once(make: Any) -> None:
    decided_behind_somebody_else(make(changes={"compact_from_files": 3}))


def decided_behind_somebody_else(world: ChangeFilesWorld) -> None:
    changed(world)
    rows = rows_of_both(world)
    with closing(world.maintenance()) as maintenance:
        stream = Applying(world, sink=world.sink(failpoints=_Amid("app.dml_done", maintenance.let_go)))
        ledger = stream.span(insert(ACCOUNT, **account(20)), delete(AUDIT, **CALL)).ledger
    assert world.state().streams[STREAM].row == ledger
    assert world.rows(ACCOUNT) == sorted([*rows[0], *texts(account(20))])
    assert (len(world.rows(AUDIT)), len(world.files(AUDIT))) == (10, 2)


def test_a_load_beside_a_stream_that_goes_on_is_written_once_and_replaces_what_came_by_it(
    make: Any,
) -> None:
    world = make()
    stream = changed(world)
    loads = [world.load(table, [account(1, "loaded")] if table is ACCOUNT else []) for table in TABLES]
    spans = iter(range(20, 23))

    def goes_on() -> None:
        for number in spans:
            stream.span(insert(ACCOUNT, **account(number)))
            return

    sink = world.sink(failpoints=_Amid("pub.swapped", goes_on))
    sink.publish(STREAM, loads, publication=publication(TABLES, run_id="again"))
    assert world.rows(ACCOUNT) == texts(account(1, "loaded"))
    assert len(list(Path(world.declared.location, "settlement", "account").iterdir())) == 7 + 3 + 1
    Applying(world).span(update(ACCOUNT, account(1, "loaded"), account(1, "later")))
    assert world.rows(ACCOUNT) == texts(account(1, "later"))


def test_a_compaction_that_slept_through_a_removal_swaps_nothing(make: Any) -> None:
    world = make(changes={"compact_from_files": 3})
    changed(world)
    rows = rows_of_both(world)
    with closing(open_changes_store(world.destination)) as store, closing(world.maintenance()) as maintenance:
        log = ChangesLog(store, "settlement")
        seen = log.look()
        due = list(swaps(seen, changes_options(world.destination), now=NOW))
        store.write(log.path("account", "parquet"), io.BytesIO(b"of a dead writer"))
        assert maintenance.sweep(log, now=NOW + timedelta(days=2)) == 1
        assert [swap(log, seen, one) for one in due] == [0, 0]
    assert rows_of_both(world) == rows


def test_what_no_manifest_names_goes_after_a_day_and_not_before(make: Any) -> None:
    world = make(changes={"compact_from_files": 3})
    changed(world)
    rows = rows_of_both(world)
    with closing(world.maintenance()) as maintenance:
        maintenance.let_go()
        log = maintenance._log("settlement")
        everything = {str(path) for path in Path(world.declared.location, "settlement").rglob("*.parquet")}
        assert maintenance.sweep(log, now=datetime.now(UTC)) == 0
        assert maintenance.sweep(log, now=datetime.now(UTC) + timedelta(days=2)) == 14
        assert maintenance.sweep(log, now=datetime.now(UTC) + timedelta(days=2)) == 0
    left = {str(path) for path in Path(world.declared.location, "settlement").rglob("*.parquet")}
    assert len(everything - left) == 14
    assert rows_of_both(world) == rows


def test_changes_that_are_older_than_is_kept_become_the_rows_as_they_stood(make: Any) -> None:
    world = make(changes={"keep_days": 30, "before_image": True})
    stream = changed(world)
    rows, changes = rows_of_both(world), read_by_duckdb(world, "account")
    with closing(world.maintenance()) as maintenance:
        # The source had committed them years ago, and the stream has written them just now.
        maintenance.let_go()
        assert read_by_duckdb(world, "account") == changes
        log = maintenance._log("settlement")
        maintenance.compact(log, now=NOW + timedelta(days=31))
    found = read_by_duckdb(world, "account")
    assert ({row["_op"] for row in found}, sorted(row["id"] for row in found)) == ({"r"}, [1, 2, 3, 4, 5])
    # What a row was before is older than is kept, too.
    assert {row["_before"] for row in found} == {None}
    assert [(row["_op"], row["_copies"]) for row in read_by_duckdb(world, "audit")] == [("r", 11)]
    assert rows_of_both(world) == rows
    stream.span(update(ACCOUNT, account(1, "b"), account(1, "later")), delete(AUDIT, **CALL))
    assert world.rows(ACCOUNT)[0] == texts(account(1, "later"))[0]
    assert len(world.rows(AUDIT)) == 10


def test_a_missing_change_file_fails_the_maintenance_of_its_sync_alone_and_is_named_with_its_cure(make: Any) -> None:
    other, world = make(changes={"compact_from_files": 3}), make(changes={"compact_from_files": 3})
    # Maintenance comes to it first.
    other.plan = replace(other.plan, sync="cards")
    changed(other)
    changed(world)
    rows = rows_of_both(world)
    missing = min(Path(world.declared.location, "cards", "account").iterdir())
    missing.unlink()
    with closing(world.maintenance()) as maintenance:
        (failed,) = maintenance.let_go().failed
    assert (type(failed), failed.sync, failed.table) == (GateFailed, "cards", "account")
    assert f"cards/account/{missing.name} is not there any more" in str(failed)
    assert "put the file back from a backup" in failed.hint
    assert "Destinations to load" in failed.hint
    assert (len(world.files(ACCOUNT)), len(world.files(AUDIT)), rows_of_both(world)) == (1, 1, rows)


def _newest_row_of_a_file_alone(patch: pytest.MonkeyPatch) -> None:
    """The fold forgets what older files say."""
    left = fold._left

    def only_newest(table: Any, files: Any, read: Any) -> Any:
        found = left(table, files, read)
        if files:
            found[: -(files[-1].rows)] = 0
        return found

    patch.setattr(fold, "_left", only_newest)


def _swap_beside_the_old_files(patch: pytest.MonkeyPatch) -> None:
    """The merged file is named beside those that it was made of."""
    swapped = compaction.HeldTable.swapped
    patch.setattr(compaction.HeldTable, "swapped", lambda self, old, new: swapped(self, old, (*old, *new)))


def _a_number_that_is_taken_is_no_news(patch: pytest.MonkeyPatch) -> None:
    """Who comes too late takes his span for committed."""
    decide = ChangesLog.decide

    def anyway(self: ChangesLog, seen: Seen, state: Any) -> Seen:
        return decide(self, seen, state) or Seen(seen.manifest, state)

    patch.setattr(ChangesLog, "decide", anyway)


@pytest.mark.parametrize(
    ("plant", "caught_by"),
    [
        (_newest_row_of_a_file_alone, test_changes_that_are_older_than_is_kept_become_the_rows_as_they_stood),
        (
            _swap_beside_the_old_files,
            test_a_stream_that_commits_amid_a_compaction_loses_nothing_and_neither_does_the_compaction,
        ),
        (
            _a_number_that_is_taken_is_no_news,
            test_a_span_whose_number_somebody_else_has_taken_is_decided_behind_it_and_is_there_once,
        ),
    ],
)
def test_a_planted_bug_is_caught(make: Any, monkeypatch: pytest.MonkeyPatch, plant: Any, caught_by: Any) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, SeamlineError)):
        caught_by(make)


# ---- stores ---------------------------------------------------------------------------------------------------------


@pytest.fixture(params=["s3", "sftp", "ftp", "ftps", "hdfs"])
def stored(request: pytest.FixtureRequest, reached: Reached, tmp_path: Path) -> Iterator[ChangeFilesWorld]:
    is_hdfs = request.param == "hdfs"
    place: Place = request.getfixturevalue("hdfs_place") if is_hdfs else reached(request.param).below("changes")
    world = ChangeFilesWorld(
        TABLES, place.location, staging=tmp_path, connection=place.connection, changes={"compact_from_files": 3}
    )
    yield world
    with closing(open_store(place.location, place.connection)) as store:
        for folder in (*(f"settlement/{table.name}" for table in TABLES), ".seamline/settlement/log"):
            store.remove_folder(folder)


def test_each_store_takes_changes_fences_an_owner_and_compacts(stored: ChangeFilesWorld) -> None:
    stream = changed(stored)
    rows = rows_of_both(stored)
    assert rows == (texts(*(account(number, "b") for number in range(1, 5)), account(5)), texts(*[CALL] * 11))
    with closing(stored.maintenance()) as maintenance:
        maintenance.let_go()
    assert (len(stored.files(ACCOUNT)), rows_of_both(stored)) == (1, rows)
    newer = Applying(stored)
    with pytest.raises(Fenced):
        stream.span(insert(ACCOUNT, **account(99)))
    newer.span(insert(ACCOUNT, **account(7)))
    assert len(stored.rows(ACCOUNT)) == 6


# HDFS shows a file while it is written, and decides by RENAME: what the other stores do not.
@pytest.mark.parametrize("stored", ["hdfs"], indirect=True)
def test_a_writer_on_hdfs_that_is_killed_before_any_step_leaves_a_span_whole_or_not_at_all(
    stored: ChangeFilesWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed_before_any_step(stored, monkeypatch)


@pytest.mark.parametrize("stored", ["hdfs"], indirect=True)
def test_a_span_on_hdfs_whose_number_somebody_else_has_taken_is_decided_behind_it(stored: ChangeFilesWorld) -> None:
    decided_behind_somebody_else(stored)
