"""The archive of a log: whole whatever ends its writer, never more than what was read back, and read as the log is."""

import errno
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pytest

from seamline.adapters.debezium.envelope import Decoder
from seamline.archive.part_file import ArchivedMessage
from seamline.archive.reader import ArchivedLogReader
from seamline.archive.stored import PartLimits, StoredArchive
from seamline.domain.errors import GateFailed, InvariantViolated, LogCorrupted, PositionLost, TransientError
from seamline.domain.log import LogRecord
from seamline.domain.table_places import TablePlaces
from seamline.files.stores.local import LocalStore
from seamline.sources.mariadb.decode import MariaDbDecoder
from tests.documented import block

TOPIC, ID, NAME = "seamline.bank.log", "id-1", "seamline-bank"
DAY_MS, FIRST_MS = 86_400_000, 1_795_224_000_000


def decoder() -> Decoder:
    return MariaDbDecoder(NAME, TablePlaces("bank"))


@dataclass
class Log:
    """A log topic in memory, with holes between its records as markers of Kafka's transactions leave them."""

    messages: list[ArchivedMessage] = field(default_factory=list)
    pruned: int = 0
    at: int = 0
    reads: list[tuple[int, int]] = field(default_factory=list)
    decoder: Decoder = field(default_factory=decoder)
    place: int = 0
    topic: str = TOPIC
    topic_id: str = ID

    def write(self, document: dict[str, Any] | bytes, *, key: bytes | None = None, headers: Any = None) -> None:
        value = document if isinstance(document, bytes) else json.dumps(document, separators=(",", ":")).encode()
        self.messages.append(ArchivedMessage(self.at, FIRST_MS + self.at * DAY_MS // 10, key, value, headers))
        self.at += 1

    def transaction(self, number: int, rows: int) -> None:
        gtid = f"0-7-{number}"
        source = {"name": NAME, "ts_ms": 1, "db": "bank", "table": "account", "gtid": gtid, "file": "b.000001"}
        self.write({"status": "BEGIN", "id": gtid, "ts_ms": 5, "seamline": "whole"})
        for row in range(rows):
            image = {"id": row, "memo": "wörtlich"}
            self.write(
                {"before": None, "after": image, "source": {**source, "pos": number}, "op": "c"},
                key=json.dumps({"id": row}).encode(),
                headers=(("old", b"\x00\xff"), ("none", None)) if row == 0 else None,
            )
        counts = [{"data_collection": "bank.account", "event_count": rows}]
        end = {"status": "END", "id": gtid, "event_count": rows, "data_collections": counts, "ts_ms": number * 1000}
        self.write(end)
        self.at += number % 2

    # ---- ports

    def read(self, begins: int, ends: int) -> Iterator[Sequence[ArchivedMessage]]:
        if begins < self.pruned:
            raise PositionLost(f"the log begins at {self.pruned}")
        self.reads.append((begins, ends))
        for message in self.messages:
            if begins <= message.at < ends:
                yield [message]

    def begins(self) -> int:
        return self.pruned

    def assign(self, offset: int) -> None:
        assert offset >= self.pruned
        self.place = offset

    def poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:  # noqa: ARG002
        found: list[LogRecord] = []
        wanted = [message for message in self.messages if message.at >= self.place][:records_max]
        self.decoder.decode(wanted, found)
        self.place = wanted[-1].at + 1 if wanted else self.place
        return found

    def end_offset(self) -> int:
        return self.at

    def close(self) -> None: ...


def written(*sizes: int) -> Log:
    log = Log()
    log.write({"ts_ms": 5})
    for number, rows in enumerate(sizes, start=1):
        log.transaction(number, rows)
    return log


class Killed(BaseException):
    """As a SIGKILL: nothing of the writer goes on."""


class Store(LocalStore):
    """`steps`: after so many changes of the place the writer is killed, before or behind the last one."""

    def __init__(self, root: Path, steps: int = -1, *, behind: bool = False) -> None:
        super().__init__(root)
        self._steps, self._behind = steps, behind

    def _step(self, change: Callable[[], Any]) -> Any:
        self._steps -= 1
        if self._steps == -1 and not self._behind:
            raise Killed
        done = change()
        if self._steps == -1:
            raise Killed
        return done

    def write(self, path: str, content: Any) -> None:
        self._step(lambda: LocalStore.write(self, path, content))

    def put_if_absent(self, path: str, content: bytes) -> bool:
        return bool(self._step(lambda: LocalStore.put_if_absent(self, path, content)))

    def place(self, source: str, target: str) -> bool:
        return bool(self._step(lambda: LocalStore.place(self, source, target)))

    def remove(self, path: str) -> None:
        self._step(lambda: LocalStore.remove(self, path))


SMALL = PartLimits(records_max=5)


def archive(
    root: Path, log: Log, store: LocalStore | None = None, limits: PartLimits = SMALL, topic_id: str = ID
) -> StoredArchive:
    return StoredArchive(store or LocalStore(root), TOPIC, topic_id, log=log, open_decoder=decoder, limits=limits)


def held(root: Path, log: Log, since: int = 0) -> list[ArchivedMessage]:
    return [message for some in archive(root, log).messages(since) for message in some]


def files(root: Path) -> list[str]:
    return sorted(path.name for path in root.rglob("*.parquet"))


# ---- writing --------------------------------------------------------------------------------------------------------


def test_all_below_the_floor_is_archived_as_it_was_and_a_repeat_adds_what_has_come(tmp_path: Path) -> None:
    log = written(2, 3, 9, 1)
    first = archive(tmp_path, log).extend(0, 12)
    assert first.ends <= 12
    assert held(tmp_path, log) == [message for message in log.messages if message.at < 12]
    found = archive(tmp_path, log).extend(0, log.at)
    assert (found.begins, found.ends) == (0, log.messages[-1].at + 1)
    assert held(tmp_path, log) == log.messages
    assert archive(tmp_path, log).extend(0, log.at) == found
    assert found.size_bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert found.parts == len(files(tmp_path))


def test_the_files_are_a_table_for_other_tools(tmp_path: Path, checkout: Path) -> None:
    log = written(2, 1)
    log.write(b"garbage")
    archive(tmp_path, log, limits=PartLimits()).extend(0, log.at)
    rows = duckdb.execute(
        'SELECT "offset", kind, transaction_id, position, epoch_ms(committed_at), "table", op, after, value::VARCHAR'
        f" FROM '{tmp_path}/{TOPIC}/*/records/*.parquet' ORDER BY 1"
    ).fetchall()
    assert [row[1] for row in rows] == [
        "HEARTBEAT",
        *("BEGIN", "ROWS", "ROWS", "END"),
        *("BEGIN", "ROWS", "END"),
        "UNREADABLE",
    ]
    row = rows[2]
    assert (row[0], row[2], row[4], row[5], row[6]) == (2, "0-7-1", 1000, "account", "c")
    assert row[3].startswith("0-7-1")
    assert json.loads(row[7]) == {"id": 0, "memo": "wörtlich"}
    assert rows[-1][8] == "garbage"
    # The number first: the folder's own name may hold it.
    shown = block(checkout, "docs/how-to/archive-the-log.md", "-- DuckDB").replace("42", "1")
    shown = shown.replace("/srv/archive/seamline.core_bank.log", f"{tmp_path}/{TOPIC}")
    assert [row[1:3] for row in duckdb.execute(shown).fetchall()] == [("0-7-1", "c")]


def test_a_topic_id_with_slashes_is_one_folder_as_kafka_s_tools_write_it(tmp_path: Path) -> None:
    log = written(2, 1)
    archive(tmp_path, log, topic_id="pF//agPNQGCrCDOhoiG9+Q").extend(0, log.at)
    assert [path.name for path in (tmp_path / TOPIC).iterdir()] == ["pF__agPNQGCrCDOhoiG9-Q"]


def test_an_archive_that_was_begun_under_an_id_with_slashes_goes_on_there(tmp_path: Path) -> None:
    log = written(2, 1)
    begun = archive(tmp_path, log, topic_id="pF").extend(0, 3)
    (tmp_path / TOPIC / "pF").rename(tmp_path / TOPIC / "moved")
    (tmp_path / TOPIC / "pF").mkdir()
    (tmp_path / TOPIC / "moved").rename(tmp_path / TOPIC / "pF" / "agPN")
    assert archive(tmp_path, log, topic_id="pF/agPN").archived() == begun
    archive(tmp_path, log, topic_id="pF/agPN").extend(3, log.at)
    assert [path.name for path in (tmp_path / TOPIC).iterdir()] == ["pF"]


def test_a_file_ends_with_a_transaction_unless_one_fills_it(tmp_path: Path) -> None:
    log = written(1, 1, 9)
    archive(tmp_path, log).extend(0, log.at)
    parts = duckdb.execute(
        f"SELECT arg_max(kind, \"offset\") FROM read_parquet('{tmp_path}/{TOPIC}/*/records/*.parquet', filename=true)"
        ' GROUP BY filename ORDER BY min("offset")'
    ).fetchall()
    assert [kind for (kind,) in parts] == ["END", "END", "ROWS", "ROWS", "END"]


@pytest.mark.parametrize("behind", [False, True])
def test_a_writer_that_is_killed_at_any_step_leaves_nothing_half_and_the_next_one_goes_on(
    tmp_path: Path, behind: bool
) -> None:
    log = written(2, 3, 4)
    for steps in range(100):
        root = tmp_path / str(steps)
        root.mkdir()
        try:
            archive(root, log, Store(root, steps, behind=behind)).extend(0, log.at)
        except Killed:
            committed = held(root, log)
            assert committed == [message for message in log.messages if message.at < archive(root, log).archived().ends]
        else:
            assert steps > 8
            return
        # Where the floor had fallen meanwhile, as by a hold.
        archive(root, log).extend(0, 4)
        found = archive(root, log).extend(0, log.at)
        assert held(root, log) == log.messages
        archive(root, log).extend(0, log.at)
        assert len(files(root)) == found.parts, "a file without an entry would be read twice by other tools"
    pytest.fail("the writer is never done")


def test_what_reads_back_otherwise_is_not_committed(tmp_path: Path) -> None:
    """The planted bug: a store that keeps something else than it was given."""

    class Lying(LocalStore):
        def place(self, source: str, target: str) -> bool:
            other = written(2, 3)
            other.messages[3] = ArchivedMessage(3, FIRST_MS, None, b"something else", None)
            archive(tmp_path / "other", other, limits=PartLimits()).extend(0, other.at)
            (made,) = (tmp_path / "other").rglob("*.parquet")
            (tmp_path / source).write_bytes(made.read_bytes())
            return super().place(source, target)

    (tmp_path / "other").mkdir()
    log = written(2, 3)
    with pytest.raises(GateFailed, match="with other content than the log had"):
        archive(tmp_path, log, Lying(tmp_path), PartLimits()).extend(0, log.at)
    assert archive(tmp_path, log).archived().parts == 0


def test_two_writers_commit_each_record_once(tmp_path: Path) -> None:
    log = written(2, 3)

    class Overtaken(LocalStore):
        """Somebody else commits more right before this one's file is there."""

        def place(self, source: str, target: str) -> bool:
            draft = (tmp_path / source).read_bytes()
            archive(tmp_path, log, limits=PartLimits()).extend(0, log.at)
            (tmp_path / source).parent.mkdir(exist_ok=True)
            (tmp_path / source).write_bytes(draft)
            return super().place(source, target)

    with pytest.raises(TransientError, match="somebody else archives"):
        archive(tmp_path, log, Overtaken(tmp_path)).extend(0, 5)
    archive(tmp_path, log).extend(0, log.at)
    assert held(tmp_path, log) == log.messages
    assert len(files(tmp_path)) == 1


@pytest.mark.parametrize("content", [b"", b"other"])
def test_a_file_without_an_entry_that_is_not_of_the_log_is_removed_and_written_anew(
    tmp_path: Path, content: bytes
) -> None:
    """Else every maintenance would stop there."""
    log = written(2, 3)
    ends = archive(tmp_path, log).extend(0, 5).ends
    (entry,) = tmp_path.rglob("*.json")
    entry.unlink()
    (file,) = tmp_path.rglob("*.parquet")
    if content:
        other = written(2, 3)
        other.messages[3] = ArchivedMessage(3, FIRST_MS, None, content, None)
        (tmp_path / "other").mkdir()
        archive(tmp_path / "other", other).extend(0, 5)
        (made,) = (tmp_path / "other").rglob("*.parquet")
        made.rename(file)
    else:
        file.write_bytes(content)
    assert archive(tmp_path, log).extend(0, 5).ends == ends
    assert held(tmp_path, log) == [message for message in log.messages if message.at < ends]


def test_a_full_disk_of_this_machine_is_a_trouble_of_one_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Maintenance goes on with the other sources, and says why this log is not pruned."""
    log = written(2, 3)

    def full(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("seamline.archive.stored.write_part", full)
        with pytest.raises(TransientError, match="No space left"):
            archive(tmp_path, log).extend(0, log.at)
    log.pruned = archive(tmp_path, log).extend(0, log.at).ends

    class Full(LocalStore):
        def read(self, path: str, into: Any) -> None:  # noqa: ARG002
            full()

    with pytest.raises(TransientError, match="No space left"):
        next(archive(tmp_path, log, Full(tmp_path)).messages(0))
    with monkeypatch.context() as patch:
        patch.setattr("tempfile.tempdir", str(tmp_path / "none"))
        with pytest.raises(TransientError, match="on this machine"):
            next(archive(tmp_path, log).messages(0))


def test_a_draft_that_another_run_has_removed_is_tried_again(tmp_path: Path) -> None:
    class Cleared(LocalStore):
        def place(self, source: str, target: str) -> bool:
            (tmp_path / source).unlink()
            return super().place(source, target)

    with pytest.raises(TransientError, match="somebody else archives"):
        archive(tmp_path, written(2), Cleared(tmp_path)).extend(0, 5)


def test_a_log_that_was_pruned_without_its_archive_is_refused(tmp_path: Path) -> None:
    log = written(2, 3, 4)
    ends = archive(tmp_path, log).extend(0, 6).ends
    log.pruned = ends + 3
    with pytest.raises(PositionLost, match=f"ends before offset {ends} and the log begins at {ends + 3}"):
        archive(tmp_path, log).extend(log.pruned, log.at)


def test_the_oldest_files_end_by_the_keep_unless_somebody_needs_them_and_the_newest_stays(tmp_path: Path) -> None:
    log = written(3, 3, 3, 3)
    archive(tmp_path, log).extend(0, log.at)
    kept = len(files(tmp_path))
    assert archive(tmp_path, log).expire(keep_days=0, needed_from=log.at) == ()
    assert not archive(tmp_path, log).expire(keep_days=1, needed_from=3)
    assert archive(tmp_path, log).expire(keep_days=1, needed_from=log.at)
    found = archive(tmp_path, log).archived()
    assert 0 < found.parts < kept
    assert held(tmp_path, log) == [message for message in log.messages if message.at >= found.begins]
    assert found.size_bytes == sum(path.stat().st_size for path in tmp_path.rglob("*.parquet"))
    assert not archive(tmp_path, log).expire(keep_days=1, needed_from=log.at)
    archive(tmp_path, log).expire(keep_days=0.001, needed_from=log.at)
    assert archive(tmp_path, log).archived().parts == 1
    assert archive(tmp_path, log).extend(0, log.at).ends == found.ends


# ---- reading --------------------------------------------------------------------------------------------------------


def reader(root: Path, log: Log) -> ArchivedLogReader:
    def opened(topic_id: str) -> StoredArchive:
        assert topic_id == ID
        return archive(root, log)

    return ArchivedLogReader(log, opened)


def flat(records: Sequence[LogRecord]) -> list[Any]:
    found: list[Any] = []
    for record in records:
        found += record.rows or [(record.offset, record.kind, record.ts_ms, record.counts)]
    return found


def read(opened: ArchivedLogReader | Log, since: int, *, at_once: int = 4) -> list[Any]:
    with closing(opened):
        opened.assign(since)
        found: list[LogRecord] = []
        while records := opened.poll(0.0, at_once):
            found += records
        return flat(found)


@pytest.mark.parametrize("pruned", range(0, 16))
def test_a_reader_comes_through_archive_and_log_to_what_the_log_alone_had(tmp_path: Path, pruned: int) -> None:
    """Wherever the seam is, also inside of a transaction."""
    log = written(2, 3, 4)
    whole = {since: read(log, since) for since in (0, 2, 7)}
    log.pruned = archive(tmp_path, log).extend(0, pruned).ends
    for since, expected in whole.items():
        log.decoder = decoder()
        assert read(reader(tmp_path, log), since) == expected


def test_a_log_that_is_pruned_while_its_archive_is_read_is_read_on_in_the_archive(tmp_path: Path) -> None:
    log = written(2, 3, 4)
    whole = read(log, 0)
    log.decoder = decoder()
    log.pruned = archive(tmp_path, log).extend(0, 6).ends
    with closing(reader(tmp_path, log)) as opened:
        opened.assign(0)
        found = list(opened.poll(0.0, 100))
        log.pruned = archive(tmp_path, log).extend(log.pruned, 13).ends
        while records := opened.poll(0.0, 100):
            found += records
    assert flat(found) == whole


def test_a_log_that_is_away_where_its_archive_ends_is_read_on_by_the_next_poll(tmp_path: Path) -> None:
    log = written(2, 3, 4)
    whole = read(log, 0)
    log.decoder = decoder()
    log.pruned = archive(tmp_path, log).extend(0, 6).ends
    assign, away = log.assign, [TransientError("the broker is away")]

    def assigned(offset: int) -> None:
        if away:
            raise away.pop()
        assign(offset)

    log.assign = assigned  # type: ignore[method-assign]
    found: list[LogRecord] = []
    with closing(reader(tmp_path, log)) as opened:
        opened.assign(0)
        found += opened.poll(0.0, 100)
        with pytest.raises(TransientError, match="away"):
            opened.poll(0.0, 100)
        while records := opened.poll(0.0, 100):
            found += records
    assert flat(found) == whole


def test_the_archive_is_not_asked_for_what_the_log_has() -> None:
    log = written(2)
    log.pruned = 3

    def opened(topic_id: str) -> StoredArchive:
        raise InvariantViolated(topic_id)

    assert read(ArchivedLogReader(log, opened), 3)


def test_an_offset_that_neither_has_is_a_lost_position(tmp_path: Path) -> None:
    log = written(2, 3, 4)
    log.pruned = 3
    with pytest.raises(PositionLost, match="begins at offset 3, wanted 1, and its archive is empty"):
        reader(tmp_path, log).assign(1)
    log.pruned = archive(tmp_path, log).extend(3, 9).ends
    with pytest.raises(PositionLost, match=f"wanted 1, and its archive holds offsets 3 to {log.pruned}"):
        reader(tmp_path, log).assign(1)
    log.pruned += 2
    with pytest.raises(PositionLost, match="neither the log nor its archive"):
        reader(tmp_path, log).assign(4)


def test_a_file_that_was_changed_or_is_gone_is_reported_and_nothing_of_it_is_read(tmp_path: Path) -> None:
    log = written(2, 3, 4)
    log.pruned = archive(tmp_path, log).extend(0, log.at).ends
    first, second, *_ = sorted(tmp_path.rglob("*.parquet"))
    content = second.read_bytes()
    second.write_bytes(first.read_bytes())
    with pytest.raises(GateFailed, match="with other content than the log had"):
        read(reader(tmp_path, log), 6)
    second.write_bytes(content[:-20])
    with pytest.raises(LogCorrupted, match="is no file of the archive"):
        read(reader(tmp_path, log), 6)
    second.unlink()
    with pytest.raises(PositionLost, match="is gone"):
        read(reader(tmp_path, log), 6)
    sorted(tmp_path.rglob("*.json"))[1].unlink()
    with pytest.raises(GateFailed, match="has nothing from offset"):
        read(reader(tmp_path, log), 0)


def test_records_before_a_corrupt_one_are_handed_over_first_and_none_behind_it(tmp_path: Path) -> None:
    log = written(2)
    log.write(b"garbage")
    log.transaction(3, 1)
    log.pruned = archive(tmp_path, log, limits=PartLimits()).extend(0, log.at).ends
    opened = reader(tmp_path, log)
    opened.assign(0)
    assert len(flat(opened.poll(0.0, 100))) == 5
    for _ in range(2):
        with pytest.raises(LogCorrupted):
            opened.poll(0.0, 100)
