"""What Java has loaded of Spark once, kept in a file: a driver that begins with it takes half of the CPU.

For sessions of tests, which start drivers by the hundred: 3.8 s of CPU up to the end of the first query in place of
6.6 (Java 17). Java itself looks whether a file fits it and its class path, and does without one that does not.
"""

import hashlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from seamline.stack import java
from seamline.stack.folder_lock import lock_after_waiting
from seamline.stack.layout import Layout

# What a JVM with another class path says of a file that does not fit it would stand in its output.
_UNSAID = "-Xlog:cds*=off"
_MADE_WITHIN_S = 300


@dataclass(frozen=True, slots=True)
class ClassArchive:
    """`platform`: Java's own classes, "" where this Java came with a file of them. The others lie on top of those:
    `spark` of a driver, `with_jars` of one that has more jars on its class path, as a stream host has."""

    platform: str
    spark: str
    with_jars: str

    @property
    def for_every_jvm(self) -> list[str]:
        return [f'"-XX:SharedArchiveFile={self.platform}"', _UNSAID] if self.platform else []

    @property
    def for_drivers(self) -> list[str]:
        return self._on_top(self.spark)

    @property
    def for_drivers_with_jars(self) -> list[str]:
        return self._on_top(self.with_jars)

    def _on_top(self, archive: str) -> list[str]:
        both = ":".join(file for file in (self.platform, archive) if file)
        return [f'"-XX:SharedArchiveFile={both}"', _UNSAID]


class NotMade(Exception):
    """This Java makes no archive, or not here; the text is its output."""


def of_spark(layout: Layout, environment: Mapping[str, str], *, train: Sequence[str]) -> ClassArchive | None:
    """The archive of this Java and this Spark, made unless it is there. Other processes may ask at the same time.

    `train` is a command that uses a local Spark for all sorts of things and ends it; with paths of jars behind it, a
    Spark that has these before its own. None where no archive can be made, which is written to the output: drivers
    begin as slowly as they do then.
    """
    try:
        return _made(layout, environment, train)
    except (NotMade, subprocess.TimeoutExpired) as exc:
        sys.stdout.write(f"Java keeps no archive of the classes of Spark: {exc}\n")
        return None


def _made(layout: Layout, environment: Mapping[str, str], train: Sequence[str]) -> ClassArchive:
    binary, jars = java.find(layout, environment).binary, sorted((layout.jars / "spark").glob("iceberg-*.jar"))
    folder = layout.settings.home / "class-archives" / _key(binary, layout, environment)
    platform, spark, with_jars = (folder / f"{name}.jsa" for name in ("platform", "spark", "with-jars"))
    with lock_after_waiting(folder, "made", on_wait=lambda: None):
        base = _platform(binary, platform, environment)
        for archive, given in ((spark, []), (with_jars, jars)):
            if not archive.exists():
                _train(archive, [*train, *map(str, given)], environment, base)
    return ClassArchive(str(platform) if platform.exists() else "", str(spark), str(with_jars))


def _platform(binary: Path, platform: Path, environment: Mapping[str, str]) -> list[str]:
    """What a JVM is given besides, to find Java's own classes in a file."""
    try:
        _run([str(binary), "-Xshare:on", "-version"], environment)
    except NotMade:
        if not platform.exists():
            new = platform.with_suffix(".new")
            _run([str(binary), "-Xshare:dump", f"-XX:SharedArchiveFile={new}"], environment)
            new.rename(platform)
        return [f'"-XX:SharedArchiveFile={platform}"']
    return []


def _train(spark: Path, train: Sequence[str], environment: Mapping[str, str], base: Sequence[str]) -> None:
    new = spark.with_suffix(".new")
    new.unlink(missing_ok=True)
    options = " ".join([*base, f'"-XX:ArchiveClassesAtExit={new}"'])
    said = _run(train, {**environment, "SPARK_SUBMIT_OPTS": options})
    if not new.exists():
        raise NotMade(said)
    new.rename(spark)


def _key(binary: Path, layout: Layout, environment: Mapping[str, str]) -> str:
    """Another one for another Java and for other jars."""
    jars = sorted(layout.venv_bin.parent.glob("lib/python3.*/site-packages/pyspark/jars/*.jar"))
    # Java prints the options of a session, which are others for each.
    plain = {name: value for name, value in environment.items() if name != "JDK_JAVA_OPTIONS"}
    known = [_run([str(binary), "-Xinternalversion"], plain), str(jars[:1]), *(jar.name for jar in jars)]
    return hashlib.sha256("\n".join(known).encode()).hexdigest()[:16]


def _run(command: Sequence[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        command,
        env=dict(environment),
        capture_output=True,
        text=True,
        errors="replace",
        timeout=_MADE_WITHIN_S,
        check=False,
    )
    said = (done.stdout + done.stderr).strip()[-2000:]
    if done.returncode != 0:
        raise NotMade(said)
    return said
