"""Every jar on disk is the one in the lock, or setting up stops."""

import hashlib
from pathlib import Path
from xml.etree import ElementTree

import pytest

from seamline.domain.errors import ConfigError, TerminalError
from seamline.stack import jars
from seamline.stack.jars import LockedFile
from tests.unit.jar_registry import CONTENT, LOCKED, Registry, on_disk


@pytest.fixture
def wanted() -> tuple[LockedFile, ...]:
    return LOCKED


@pytest.fixture
def folder(tmp_path: Path, wanted: tuple[LockedFile, ...]) -> Path:
    target = tmp_path / "jars"
    jars.ensure(wanted, target, fetch=Registry())
    return target


def test_an_empty_folder_is_filled(folder: Path) -> None:
    assert on_disk(folder) == CONTENT


def test_a_complete_folder_asks_for_nothing(folder: Path, wanted: tuple[LockedFile, ...]) -> None:
    registry = Registry()
    assert jars.ensure(wanted, folder, fetch=registry) == 0
    assert registry.asked == []


@pytest.mark.parametrize("damage", [b"tampere", b"alphA", b""])
def test_a_damaged_jar_is_fetched_again(folder: Path, wanted: tuple[LockedFile, ...], damage: bytes) -> None:
    (folder / "kafka" / "a-1.jar").write_bytes(damage)
    registry = Registry()
    assert jars.ensure(wanted, folder, fetch=registry) == 1
    assert registry.asked == [["kafka"]], "only the configuration that holds it"
    assert on_disk(folder) == CONTENT


def test_a_jar_that_arrives_wrong_once_is_asked_for_once_more(tmp_path: Path, wanted: tuple[LockedFile, ...]) -> None:
    registry = Registry({"spark/c-3.jar": 1})
    jars.ensure(wanted, tmp_path / "jars", fetch=registry)
    assert registry.asked == [["kafka", "spark"], ["spark"]]
    assert on_disk(tmp_path / "jars") == CONTENT


def test_a_jar_that_stays_wrong_stops_with_name_expected_and_found(
    tmp_path: Path, wanted: tuple[LockedFile, ...]
) -> None:
    with pytest.raises(TerminalError) as caught:
        jars.ensure(wanted, tmp_path / "jars", fetch=Registry({"spark/c-3.jar": 9}))
    said = str(caught.value)
    assert "spark/c-3.jar" in said
    assert hashlib.sha256(b"gamma").hexdigest() in said
    assert hashlib.sha256(b"tampered").hexdigest() in said
    assert not (tmp_path / "jars" / "spark" / "c-3.jar").exists(), "a wrong jar never reaches its place"


def test_a_missing_jar_that_the_registry_does_not_give_is_named(tmp_path: Path, wanted: tuple[LockedFile, ...]) -> None:
    more = (*wanted, LockedFile("kafka/gone-1.jar", "0" * 64, 5))
    with pytest.raises(TerminalError, match="kafka/gone-1.jar"):
        jars.ensure(more, tmp_path / "jars", fetch=Registry())


def test_a_stranger_is_removed(folder: Path, wanted: tuple[LockedFile, ...]) -> None:
    (folder / "kafka" / "evil-1.jar").write_bytes(b"x")
    jars.ensure(wanted, folder, fetch=Registry())
    assert on_disk(folder) == CONTENT


def test_a_lock_written_from_a_folder_reads_back_as_that_folder(
    folder: Path, tmp_path: Path, wanted: tuple[LockedFile, ...]
) -> None:
    lock = tmp_path / "jars.lock"
    assert jars.write_lock(lock, folder) == len(CONTENT)
    assert jars.read_lock(lock) == wanted


def test_a_lock_line_that_says_less_is_refused_with_its_number(tmp_path: Path) -> None:
    lock = tmp_path / "jars.lock"
    lock.write_text("# header\nabc 5 kafka/a.jar\n")
    with pytest.raises(ConfigError, match=r"jars\.lock:2"):
        jars.read_lock(lock)


def test_the_lock_of_the_project_names_every_dependency_of_ivy_xml(checkout: Path) -> None:
    files = {file.path for file in jars.read_lock(checkout / "jars" / "jars.lock")}
    for dependency in ElementTree.parse(checkout / "jars" / "ivy.xml").iter("dependency"):
        configuration = dependency.attrib["conf"].split("->")[0]
        stem = f"{configuration}/{dependency.attrib['name']}-{dependency.attrib['rev']}"
        assert any(path.startswith(stem) for path in files), f"{stem} is not in jars.lock: ./seamline lock"


def test_what_only_a_bench_or_a_test_uses_is_locked_too_and_no_part_of_the_stack(checkout: Path) -> None:
    locked = jars.read_lock(checkout / "jars" / "jars.lock")
    peers = [file for file in locked if jars.is_peer(file)]
    alone = (
        jars.ENCRYPTING,
        jars.DELTA,
        jars.REST,
        jars.HDFS,
        jars.HUDI,
        jars.HBASE,
        jars.HBASE_SERVER,
        jars.DATABASES,
    )
    of_tests = [file for file in locked if file.configuration in alone]
    assert peers
    assert of_tests
    assert jars.of_the_stack(locked) == tuple(file for file in locked if file not in (*peers, *of_tests))


def unpacked(folder: Path, counted: list[str], of: str = "1" * 64) -> None:
    def make(fresh: Path) -> None:
        counted.append(of)
        (fresh / "lib").mkdir()
        (fresh / "lib" / "a.jar").write_bytes(b"alpha")
        (fresh / "b.so").write_bytes(b"beta")

    jars.make_once(folder, of, make)


def test_what_was_unpacked_and_not_touched_is_not_unpacked_again(tmp_path: Path) -> None:
    made: list[str] = []
    for of in ("1" * 64, "1" * 64, "2" * 64):
        unpacked(tmp_path / "plugin", made, of)
    assert made == ["1" * 64, "2" * 64]
    (tmp_path / "plugin" / "put-there.jar").touch()
    assert jars.altered(tmp_path / "plugin") == ()


@pytest.mark.parametrize("damage", ["deleted", "written", "replaced"])
def test_an_unpacked_file_that_was_touched_is_named_and_unpacked_again(tmp_path: Path, damage: str) -> None:
    made: list[str] = []
    unpacked(tmp_path / "plugin", made)
    victim = tmp_path / "plugin" / "lib" / "a.jar"
    if damage == "written":
        victim.write_bytes(b"alphA")
    else:
        victim.unlink()
    if damage == "replaced":
        victim.write_bytes(b"alpha")
    assert jars.altered(tmp_path / "plugin") == ("lib/a.jar",)
    unpacked(tmp_path / "plugin", made)
    assert victim.read_bytes() == b"alpha" and jars.altered(tmp_path / "plugin") == () and len(made) == 2


def test_a_folder_that_was_never_unpacked_is_named_whole(tmp_path: Path) -> None:
    assert jars.altered(tmp_path / "plugin") == (".",)
