"""Packages of Debian that tests use are those of the lock, and an error names those that cannot be had."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from seamline.domain.errors import TerminalError, TransientError
from seamline.stack import jars
from seamline.stack.shared_files import SharedFiles
from tests.debian_packages import LOCK, Package, read_lock, unpacked, write_lock

NAMES = ("server", "library", "other-library")


class Suite:
    """A suite of Debian with small packages, each a file with its own version in it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.versions = dict.fromkeys(NAMES, "1.0-1")
        self.asked: list[list[str]] = []

    def fetch(self, names: Sequence[str], into: Path) -> None:
        self.asked.append(list(names))
        for name in names:
            version = self.versions[name]
            built = self._folder / f"{name}_{version}.deb"
            if not built.exists():
                self._build(name, version, built)
            (into / built.name).write_bytes(built.read_bytes())

    def _build(self, name: str, version: str, deb: Path) -> None:
        root = self._folder / f"{name}-{version}"
        (root / "DEBIAN").mkdir(parents=True)
        control = f"Package: {name}\nVersion: {version}\nArchitecture: all\nMaintainer: none\nDescription: none\n"
        (root / "DEBIAN" / "control").write_text(control)
        (root / "usr").mkdir()
        (root / "usr" / name).write_text(f"{name} {version}")
        subprocess.run(["dpkg-deb", "--build", "-Znone", str(root), str(deb)], check=True, capture_output=True)


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "suite").mkdir()
    return Suite(tmp_path / "suite")


@pytest.fixture
def locked(suite: Suite, tmp_path: Path) -> tuple[Package, ...]:
    write_lock(tmp_path / "lock", NAMES, fetch=suite.fetch)
    suite.asked.clear()
    return read_lock(tmp_path / "lock")


def set_up(tmp_path: Path, checkout: str, suite: Suite, locked: Sequence[Package]) -> tuple[tuple[str, ...], list[str]]:
    """Names of what differs from the lock, and what was unpacked."""
    target = tmp_path / checkout / "server"
    replaced = unpacked(target, packages=locked, store=SharedFiles(tmp_path / "store"), fetch=suite.fetch)
    return tuple(one.name for one in replaced), sorted((target / "usr" / name).read_text() for name in NAMES)


def test_a_second_checkout_asks_debian_for_nothing(tmp_path: Path, suite: Suite, locked: Sequence[Package]) -> None:
    all_of_them = ["library 1.0-1", "other-library 1.0-1", "server 1.0-1"]
    for checkout in ("one", "two", "two"):
        assert set_up(tmp_path, checkout, suite, locked) == ((), all_of_them)
    assert suite.asked == [list(NAMES)]
    assert jars.altered(tmp_path / "two" / "server") == ()


def test_a_library_that_debian_has_replaced_is_taken_as_it_is_now_and_reported(
    tmp_path: Path, suite: Suite, locked: Sequence[Package]
) -> None:
    suite.versions["library"] = "1.1-1"
    replaced, files = set_up(tmp_path, "one", suite, locked)
    assert replaced == ("library",)
    assert files == ["library 1.1-1", "other-library 1.0-1", "server 1.0-1"]


def test_another_version_of_the_server_itself_stops_the_setup(
    tmp_path: Path, suite: Suite, locked: Sequence[Package]
) -> None:
    suite.versions["server"] = "1.0-2"
    with pytest.raises(TerminalError, match=r"no longer server 1\.0-1"):
        set_up(tmp_path, "one", suite, locked)
    assert not (tmp_path / "one" / "server").exists()


def test_a_package_that_does_not_come_is_named(tmp_path: Path, suite: Suite, locked: Sequence[Package]) -> None:
    def fetch_less(names: Sequence[str], into: Path) -> None:
        suite.fetch([name for name in names if name != "library"], into)

    with pytest.raises(TransientError, match="brought no package library"):
        unpacked(tmp_path / "server", packages=locked, store=SharedFiles(None), fetch=fetch_less)


def test_the_lock_holds_the_server_first() -> None:
    packages = read_lock(LOCK)
    assert packages[0].name == "mysql-server-core"
    assert all(len(one.sha256) == 64 and one.size_bytes for one in packages)
