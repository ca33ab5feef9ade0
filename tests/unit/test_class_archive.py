"""The archive of Java's classes: made once, of one Java, and done without where it cannot be made."""

import dataclasses
import shlex
import sys
from pathlib import Path

import pytest

from seamline import settings
from seamline.stack.class_archive import ClassArchive, of_spark
from seamline.stack.layout import Layout

# What the JVM of a driver does at its end, and a mark that it was there.
TRAINS = """
import os, pathlib, re
place = re.search(r"-XX:ArchiveClassesAtExit=([^\\"]+)", os.environ["SPARK_SUBMIT_OPTS"])[1]
pathlib.Path(place).write_text(os.environ["SPARK_SUBMIT_OPTS"])
with open("trained", "a") as mark: mark.write("x")
"""
TRAIN = (sys.executable, "-c", TRAINS)


@pytest.fixture
def layout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    monkeypatch.chdir(tmp_path)
    return Layout(dataclasses.replace(settings.load({}), home=tmp_path / "a home"))


def a_java(
    folder: Path, *, version: str = "17.0.1", has_platform: str = "true", dumps: str = "touch"
) -> dict[str, str]:
    """Its environment. `has_platform` and `dumps` are programs: what it answers, and how it makes an archive."""
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n', encoding="utf-8")
    said = shlex.quote(str(folder))
    binary.write_text(
        '#!/bin/sh\necho "NOTE: Picked up JDK_JAVA_OPTIONS: $JDK_JAVA_OPTIONS" >&2\n'
        f"case $1 in -Xinternalversion) echo {said} ;; -Xshare:on) {has_platform} ;;"
        f' -Xshare:dump) {dumps} "${{2#-XX:SharedArchiveFile=}}" ;; esac\n',
        encoding="utf-8",
    )
    binary.chmod(0o755)
    return {**settings.process_environment(), "JAVA_HOME": str(folder)}


def test_an_archive_is_made_once_and_a_driver_is_given_it_in_quotes(layout: Layout, tmp_path: Path) -> None:
    environment = a_java(tmp_path / "java")
    made = of_spark(layout, environment, train=TRAIN)
    another_session = {**environment, "JDK_JAVA_OPTIONS": "-Djava.io.tmpdir=/another"}
    assert made is not None and made == of_spark(layout, another_session, train=TRAIN)
    assert Path("trained").read_text(encoding="utf-8") == "xx", "once with jars, once without"
    assert made.for_every_jvm == []
    assert made.for_drivers[0] == f'"-XX:SharedArchiveFile={made.spark}"'
    assert " " in made.spark and Path(made.spark).is_file()
    assert made.for_drivers_with_jars[0] == f'"-XX:SharedArchiveFile={made.with_jars}"'
    assert made.with_jars != made.spark and Path(made.with_jars).is_file()


def test_a_java_without_a_file_of_its_own_classes_gets_one_below_that_of_spark(layout: Layout, tmp_path: Path) -> None:
    made = of_spark(layout, a_java(tmp_path / "java", has_platform="false"), train=TRAIN)
    assert made is not None and Path(made.platform).is_file()
    assert made.for_every_jvm[0] == f'"-XX:SharedArchiveFile={made.platform}"'
    assert made.for_drivers[0] == f'"-XX:SharedArchiveFile={made.platform}:{made.spark}"'
    assert made.for_every_jvm[0] in Path(made.spark).read_text(encoding="utf-8"), "the driver was given it too"


def test_another_java_has_another_archive(layout: Layout, tmp_path: Path) -> None:
    one, other = (of_spark(layout, a_java(tmp_path / name), train=TRAIN) for name in ("one", "other"))
    assert isinstance(one, ClassArchive) and isinstance(other, ClassArchive)
    assert one.spark != other.spark


@pytest.mark.parametrize(
    ("java", "train"),
    [
        ({"has_platform": "false", "dumps": "echo no archive here; exit 1;"}, TRAIN),
        ({}, (sys.executable, "-c", "print('no archive here')")),
        ({}, (sys.executable, "-c", "exit('no archive here')")),
    ],
    ids=["none of its own classes", "none at the end", "no end in order"],
)
def test_without_an_archive_the_reason_is_written_and_tests_run_as_before(
    layout: Layout, tmp_path: Path, capsys: pytest.CaptureFixture[str], java: dict[str, str], train: tuple[str, ...]
) -> None:
    assert of_spark(layout, a_java(tmp_path / "java", **java), train=train) is None
    assert "no archive here" in capsys.readouterr().out
