"""Checkouts of one user have their large files in common, and none of them gets a wrong one by that."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.errors import TerminalError
from seamline.stack import jars, shared_files
from seamline.stack.shared_files import SharedFiles
from tests.unit.jar_registry import CONTENT, LOCKED, Registry, on_disk

FIRST, SECOND, THIRD = LOCKED


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


def set_up(checkout: Path, store: Path | None, registry: Registry) -> int:
    """How many jars were put in place; they are the right ones."""
    fetched = jars.ensure(LOCKED, checkout, fetch=shared_files.fetch_once(SharedFiles(store), LOCKED, registry))
    assert on_disk(checkout) == CONTENT
    return fetched


def test_a_second_checkout_asks_the_registry_for_nothing_and_takes_no_space(tmp_path: Path, store: Path) -> None:
    registry = Registry()
    for name in ("one", "two"):
        assert set_up(tmp_path / name, store, registry) == len(CONTENT)
    assert registry.asked == [["kafka", "spark"]]
    assert all((tmp_path / "one" / path).samefile(tmp_path / "two" / path) for path in CONTENT)


def test_a_new_version_of_a_jar_asks_for_its_configuration_alone(tmp_path: Path, store: Path) -> None:
    registry = Registry()
    set_up(tmp_path / "one", store, registry)
    (store / THIRD.sha256).unlink()
    set_up(tmp_path / "two", store, registry)
    assert registry.asked[1:] == [["spark"]]


DAMAGE: dict[str, Callable[[Path], object]] = {
    "torn": lambda path: os.truncate(path, 2),
    "changed": lambda path: path.write_bytes(b"alphA"),
    "no file": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_what_lies_damaged_in_the_store_is_never_taken(tmp_path: Path, store: Path, damage: str) -> None:
    registry = Registry()
    set_up(tmp_path / "one", store, registry)
    DAMAGE[damage](store / FIRST.sha256)
    set_up(tmp_path / "two", store, registry)
    assert registry.asked[1:] == [["kafka"]]
    # One file under two names: who damages it in one checkout has done so in the other, which notices.
    set_up(tmp_path / "one", store, registry)


def test_what_arrived_wrong_is_not_kept(tmp_path: Path, store: Path) -> None:
    spoiled = Registry({"spark/c-3.jar": 9})
    with pytest.raises(TerminalError):
        set_up(tmp_path / "one", store, spoiled)
    assert {path.name for path in store.iterdir()} == {FIRST.sha256, SECOND.sha256}


@pytest.mark.parametrize("place", ["none", "under a file", "of another disk"])
def test_without_a_store_to_share_with_the_files_come_from_the_registry_or_as_copies(
    tmp_path: Path, store: Path, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    folder = {"none": None, "under a file": tmp_path / "file" / "store"}.get(place, store)
    if place == "of another disk":
        monkeypatch.setattr(shared_files.os, "link", _across_disks)
    registry = Registry()
    for name in ("one", "two"):
        set_up(tmp_path / name, folder, registry)
    assert len(registry.asked) == (1 if place == "of another disk" else 2)


def _across_disks(source: Path, target: Path) -> None:
    raise OSError(errno.EXDEV, "invalid cross-device link")


def test_a_program_is_shared_and_not_with_a_file_that_cannot_be_run(tmp_path: Path, store: Path) -> None:
    one, other, plain = (tmp_path / name for name in ("one", "other", "plain"))
    for path in (one, other, plain):
        path.write_bytes(b"program")
        path.chmod(0o644 if path is plain else 0o755)
    for path in (plain, one, other):
        SharedFiles(store).share(path)
    assert one.samefile(other) and not one.samefile(plain)
    assert (one.stat().st_mode & 0o777, plain.stat().st_mode & 0o777) == (0o755, 0o644)
    # Again: to rename one name of a file to another of its names would leave both.
    SharedFiles(store).share(one)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["one", "other", "plain", "store"]
    assert len(list(store.iterdir())) == 1


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"HOME": "/of/a"}, Path("/of/a/.cache")),
        ({"HOME": "/of/a", "XDG_CACHE_HOME": "/disk/cache"}, Path("/disk/cache")),
        ({"HOME": "/of/a", "XDG_CACHE_HOME": "cache"}, Path("/of/a/.cache")),
        ({"HOME": ""}, None),
        ({}, None),
    ],
)
def test_the_store_lies_in_the_cache_of_the_user_if_there_is_one(
    variables: dict[str, str], wanted: Path | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert settings.user_cache() == wanted
