"""Which streams end because they are declared no more: those whose file was deleted, and never more than those."""

import errno
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from seamline.cli.seen import Seen, Streams
from seamline.cli.status_text import whole
from seamline.domain.declared import DeclaredNow, Step, StreamMark, steps
from seamline.domain.ledger import StreamId
from seamline.spec.declared import ALL_GONE_S, SETTLED_S, declared_now
from tests.unit.declared import SYNC, write_declarations

STREAM = StreamId("settlement", "warehouse")
GONE = datetime(2026, 11, 30, 7, 0, tzinfo=UTC)
SOURCE = "core_bank"
NEW = StreamMark(STREAM, SOURCE, is_wanted=True)
MISSED = StreamMark(STREAM, SOURCE, is_wanted=True, since=GONE, age_s=SETTLED_S)
ENDED = StreamMark(STREAM, SOURCE, is_wanted=False, since=GONE, age_s=SETTLED_S)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With the sync that is asked about, and another one."""
    made = write_declarations(tmp_path, {})
    (made / "syncs" / "payments.yaml").write_text(SYNC.replace("settlement", "payments", 1), encoding="utf-8")
    return made


def file_of(folder: Path) -> Path:
    return folder / "syncs" / "settlement.yaml"


def only(mark: StreamMark, now: DeclaredNow) -> Step | None:
    found = steps([mark], now)
    assert [stream for stream, _ in found] in ([], [STREAM])
    return found[0][1] if found else None


def taken(folder: Path) -> list[Step | None]:
    """What one look does about a stream that was there before, that was missed before, and that has ended so."""
    return [only(mark, declared_now(folder)) for mark in (NEW, MISSED, ENDED)]


def test_a_stream_ends_by_the_second_look_that_finds_no_file_and_goes_on_with_its_file(folder: Path) -> None:
    assert taken(folder) == [None, Step.GO_ON, Step.GO_ON]
    text = file_of(folder).read_text(encoding="utf-8")
    file_of(folder).unlink()
    assert taken(folder) == [Step.NOTE, Step.END, None]
    a_moment_ago = StreamMark(STREAM, SOURCE, is_wanted=True, since=GONE, age_s=SETTLED_S - 1)
    assert only(a_moment_ago, declared_now(folder)) is None
    file_of(folder).write_text(text, encoding="utf-8")
    assert taken(folder) == [None, Step.GO_ON, Step.GO_ON]


def test_a_destination_that_is_taken_out_of_its_sync_ends_in_the_same_way(folder: Path) -> None:
    text = file_of(folder).read_text(encoding="utf-8")
    other = (folder / "destinations" / "warehouse.yaml").read_text(encoding="utf-8").replace("warehouse", "vault", 1)
    (folder / "destinations" / "vault.yaml").write_text(other.replace("settlement", "vault"), encoding="utf-8")
    file_of(folder).write_text(text.replace("[warehouse]", "[vault]"), encoding="utf-8")
    assert taken(folder) == [Step.NOTE, Step.END, None]


@pytest.mark.parametrize(
    "break_it",
    [
        lambda file: file.write_text("sync: settlement\ntables: [", encoding="utf-8"),
        lambda file: file.write_text("", encoding="utf-8"),
        lambda file: file.write_bytes(b"\xff\xfe\x00"),
        lambda file: file.write_text(SYNC.replace("[warehouse]", "[warehous]"), encoding="utf-8"),
        lambda file: file.write_text(SYNC.replace("[warehouse]", "[]"), encoding="utf-8"),
        lambda file: file.rename(file.with_name("settlement.yaml.off")),
        lambda file: file.rename(file.with_name(".settlement.yaml.swp")),
        lambda file: (file.unlink(), file.symlink_to("/nowhere/settlement.yaml")),
    ],
)
def test_a_file_that_is_half_edited_or_cannot_be_read_is_no_deletion(
    folder: Path, break_it: Callable[[Path], object]
) -> None:
    break_it(file_of(folder))
    assert taken(folder) == [None, None, None]


def _nothing(folder: Path) -> None:
    for kind in folder.iterdir():
        for file in kind.iterdir():
            file.unlink()


def _no_folders(folder: Path) -> None:
    _nothing(folder)
    for kind in folder.iterdir():
        kind.rmdir()


def _only_syncs(folder: Path) -> None:
    """As where `sources` is on the same file system, and destinations are not."""
    for kind in ("syncs", "destinations"):
        for file in (folder / kind).iterdir():
            file.unlink()


def _no_folder_of_syncs(folder: Path) -> None:
    for file in (folder / "syncs").iterdir():
        file.unlink()
    (folder / "syncs").rmdir()


@pytest.mark.parametrize("take_away", [_nothing, _no_folders, _only_syncs, _no_folder_of_syncs])
def test_a_file_system_that_is_away_ends_no_stream_however_long_it_is_away(
    folder: Path, take_away: Callable[[Path], None]
) -> None:
    take_away(folder)
    now, old = declared_now(folder), StreamMark(STREAM, SOURCE, is_wanted=True, since=GONE, age_s=1e9)
    assert (now.settled_s, bool(now.why)) == (None, True)
    assert [only(mark, now) for mark in (NEW, MISSED, ENDED, old)] == [None] * 4
    (folder / "syncs").mkdir(exist_ok=True)
    (folder / "syncs" / ".gitkeep").touch()
    assert declared_now(folder).settled_s == SETTLED_S, "a marker of the project stands there"


def test_the_last_sync_of_a_house_ends_too_and_later(folder: Path) -> None:
    for file in (folder / "syncs").iterdir():
        file.unlink()
    assert taken(folder) == [Step.NOTE, None, None]
    late = StreamMark(STREAM, SOURCE, is_wanted=True, since=GONE, age_s=ALL_GONE_S)
    assert only(late, declared_now(folder)) is Step.END


def test_a_new_sync_under_an_old_name_does_not_bring_the_old_stream_back(folder: Path) -> None:
    old = StreamMark(STREAM, "old_bank", is_wanted=False, since=GONE, age_s=SETTLED_S)
    assert only(old, declared_now(folder)) is None
    edited_in_place = StreamMark(STREAM, "old_bank", is_wanted=True, since=GONE, age_s=SETTLED_S)
    assert only(edited_in_place, declared_now(folder)) is Step.GO_ON


def test_a_file_that_the_system_does_not_give_is_no_deletion(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stale(_: Path) -> bool:
        raise OSError(errno.ESTALE, "Stale file handle")

    monkeypatch.setattr(Path, "is_file", stale)
    assert taken(folder) == [None, None, None]


def test_status_says_once_what_became_of_it_and_is_not_red_for_that() -> None:
    seen = Seen(Streams((), {}, {}, (), (), [ENDED, MISSED]), ())
    ended, ending = whole(seen).strip().split("\n\n")
    assert ended == (
        "settlement@warehouse: not declared any more since 2026-11-30 07:00:00 +00:00; its stream has ended, and"
        " goes on from its position once it is declared again. The log keeps what it needs for that:"
        " `./seamline stream forget settlement warehouse` lets go of it"
    )
    assert "its stream ends within minutes if that stays so" in ending
    assert not seen.is_red
