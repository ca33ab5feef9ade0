"""What a scan of an Iceberg table costs after a day of commits, in files, rows and bytes: no clock is asked."""

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyiceberg.manifest import ManifestEntry

from seamline.sinks.iceberg import edit as iceberg_edit
from seamline.sinks.iceberg import snapshot
from seamline.sinks.lake import edit
from tests.unit.test_iceberg_edit import BY_NUMBER, KEYLESS, Lake

# A day of commits every ten seconds has 8,640; `bench/lake_read_cost.py` makes them all, in files of real size.
COMMITS = 100
BOUND = 3.0
ROWS = 400


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files as small as the table, in the proportion that large ones have to a large table."""
    monkeypatch.setattr(edit, "FILES_JOINED", 10)
    monkeypatch.setattr(iceberg_edit, "DELETES_JOINED", 10)
    monkeypatch.setattr(edit, "SMALL_BYTES", 2_500)
    monkeypatch.setattr(edit, "JOINED_BYTES", 20_000)
    monkeypatch.setattr(edit, "REWRITTEN_BYTES", 20_000)
    # A metadata file names each snapshot, which costs most of the time here.
    monkeypatch.setattr(snapshot, "SNAPSHOTS_KEPT", 10)
    monkeypatch.setattr(snapshot, "_LET_GO_AT_ONCE", 1)


@dataclass
class Day:
    """A table with a key that begins with all its rows, and its model: key → value."""

    lake: Lake
    dice: random.Random = field(default_factory=lambda: random.Random(11))
    expected: dict[int, str] = field(default_factory=dict)
    number: int = 0
    worst: dict[str, float] = field(default_factory=dict)

    def put(self, keys: Sequence[int]) -> None:
        self.number += 1
        rows = [(key, f"v{self.number}", f"row {key}") for key in keys]
        self.lake.commit(self.lake.put(*rows, met=[key in self.expected for key in keys]))
        self.expected |= {key: f"v{self.number}" for key in keys}
        self.look()

    def drop(self, keys: Sequence[int]) -> None:
        rows = [(key, None, None) for key in keys]
        self.lake.commit(self.lake.batch(rows, deleted=[True] * len(keys), met=[True] * len(keys)))
        for key in keys:
            del self.expected[key]
        self.look()

    def look(self) -> None:
        """What a scan would read now, as parts of what it would of the table in one file."""
        head, living = self.lake.head, max(1, len(self.expected))
        found = {
            "rows": counted(head.data) / living,
            "rows of deletes": counted(head.deletes) / living,
            "files": len(head.data) + len(head.deletes),
        }
        self.worst = {name: max(value, self.worst.get(name, 0)) for name, value in found.items()}


def counted(entries: Sequence[ManifestEntry]) -> int:
    return sum(entry.data_file.record_count for entry in entries)


def all_rows_again_and_again(day: Day) -> None:
    for _ in range(COMMITS // 4):
        day.put(range(ROWS))


def any_rows(day: Day) -> None:
    for _ in range(COMMITS):
        day.put(day.dice.sample(range(ROWS), 20))


def a_few_hot_rows(day: Day) -> None:
    for _ in range(COMMITS):
        day.put(day.dice.sample(range(30), 10))


def a_queue(day: Day) -> None:
    """As many rows come as go, the oldest first."""
    for _ in range(COMMITS // 2):
        oldest = min(day.expected)
        day.put(range(max(day.expected) + 1, max(day.expected) + 21))
        day.drop(range(oldest, oldest + 20))


def a_table_that_shrinks(day: Day) -> None:
    for _ in range(COMMITS // 4):
        day.put(day.dice.sample(sorted(day.expected), 10))
        day.drop(day.dice.sample(sorted(day.expected), 3))


DAYS = (all_rows_again_and_again, any_rows, a_few_hot_rows, a_queue, a_table_that_shrinks)


def spent(of: Callable[[Day], None], folder: Path) -> Day:
    day = Day(Lake(BY_NUMBER, folder))
    day.put(range(ROWS))
    of(day)
    assert day.lake.read() == Counter((key, value, f"row {key}") for key, value in day.expected.items())
    return day


@pytest.mark.parametrize("of", DAYS, ids=lambda day: day.__name__)
def test_a_scan_reads_at_most_three_times_the_rows_that_live_however_they_change(
    of: Callable[[Day], None], tmp_path: Path
) -> None:
    worst = spent(of, tmp_path).worst
    assert worst["rows"] <= BOUND
    assert worst["rows of deletes"] <= BOUND
    # Small ones and those of deletes until they are joined; then what the table itself makes.
    assert worst["files"] <= 2 * 10 + 12


@pytest.mark.parametrize("of", [any_rows, a_queue], ids=lambda day: day.__name__)
def test_large_files_that_keep_their_dead_rows_are_caught(
    of: Callable[[Day], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(edit.RowEdit, "_sparse_files", lambda _: [])
    assert spent(of, tmp_path).worst["rows"] > BOUND


def test_rows_without_a_key_are_read_at_most_three_times_too(tmp_path: Path) -> None:
    lake, held, worst = Lake(KEYLESS, tmp_path), Counter[tuple[str, str]](), 0.0
    for number in range(COMMITS // 2):
        change = Counter({(f"v{number % 7}", "x"): 30})
        if number >= 7:
            change[f"v{number % 7}", "x"] -= 30
            change[f"v{(number + 3) % 7}", "x"] += 5 if number % 2 else -5
        lake.commit(lake.copies(Counter({row: count for row, count in change.items() if count})))
        held.update(change)
        worst = max(worst, counted(lake.head.data) / sum(held.values()))
    assert lake.read() == +held
    assert worst <= BOUND


def test_files_of_which_few_fit_into_one_are_joined_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "SMALL_BYTES", 3_000)
    monkeypatch.setattr(edit, "JOINED_BYTES", 4_500)
    lake = Lake(BY_NUMBER, tmp_path)
    for number in range(40):
        lake.commit(lake.put((number, "a", "x" * 40)))
        sizes = [entry.data_file.file_size_in_bytes for entry in lake.head.data]
        assert sum(size <= 3_000 for size in sizes) <= 10
    assert min(sizes) > 1_000, "or more than four fit"
    assert lake.read() == Counter((number, "a", "x" * 40) for number in range(40))


def test_rows_that_are_written_again_are_held_part_by_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(edit, "PART_BYTES", 2_000)
    day = spent(any_rows, tmp_path)
    assert day.worst["rows"] <= BOUND
    assert day.lake.read() == Counter((key, value, f"row {key}") for key, value in day.expected.items())


def test_a_commit_writes_no_more_again_than_it_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One large file, or smaller ones up to so many bytes; what is left is done by the commits after it."""
    monkeypatch.setattr(edit, "REWRITTEN_BYTES", 1)
    monkeypatch.setattr(edit, "FILES_JOINED", 1_000)
    monkeypatch.setattr(iceberg_edit, "DELETES_JOINED", 1_000)
    day = Day(Lake(BY_NUMBER, tmp_path))
    for part in range(8):
        day.put(range(part * 50, part * 50 + 50))
    for part in range(8):
        before = {entry.data_file.file_path for entry in day.lake.head.data}
        day.put([key for key in range(400) if key % 8 == part])
        gone = before - {entry.data_file.file_path for entry in day.lake.head.data}
        assert len(gone) <= 1
    assert day.lake.read() == Counter((key, value, f"row {key}") for key, value in day.expected.items())
