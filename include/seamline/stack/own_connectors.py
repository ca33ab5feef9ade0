"""Compiles connect/: the project's own classes over Debezium's connectors, one jar in the plugin that they extend."""

import hashlib
import shutil
import subprocess
import zipfile
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path

from seamline.domain.errors import TerminalError
from seamline.stack import jars, java
from seamline.stack.jars import LockedFile
from seamline.stack.layout import Layout

JAR = "seamline-connect.jar"
_EXTENDED = "debezium-connector-postgres-"
_NEEDED = {"compiler", "debezium", "kafka"}
# A jar of the same classes is the same file, whenever it is made.
_MADE = (2026, 1, 1, 0, 0, 0)


def compile_into_plugins(files: Iterable[LockedFile], layout: Layout, environment: Mapping[str, str]) -> None:
    """Once per state of connect/ and of what it is compiled against; nothing where those jars were not asked for."""
    used = [file for file in files if file.configuration in _NEEDED]
    if {file.configuration for file in used} != _NEEDED:
        return
    state = hashlib.sha256("".join(file.sha256 for file in used).encode())
    for source in _sources(layout):
        state.update(source.read_bytes())
    jars.make_once(layout.own_connectors, state.hexdigest(), partial(_compile, layout, environment))
    for plugin in layout.connect_plugins.glob(f"{_EXTENDED}*"):
        _put(layout.own_connectors / JAR, plugin / JAR)


def _sources(layout: Layout) -> list[Path]:
    return sorted(path for path in _folder(layout).rglob("*") if path.is_file())


def _folder(layout: Layout) -> Path:
    return layout.settings.root / "connect"


def _compile(layout: Layout, environment: Mapping[str, str], target: Path) -> None:
    (compiler,) = (layout.jars / "compiler").glob("ecj-*.jar")
    (plugin,) = layout.connect_plugins.glob(f"{_EXTENDED}*")
    class_path = [
        *sorted((layout.jars / "kafka").glob("*.jar")),
        *sorted(path for path in plugin.glob("*.jar") if path.name != JAR),
    ]
    classes = target / "classes"
    command = [
        str(java.find(layout, environment).binary), "-jar", str(compiler), "-17", "-proc:none",
        "-cp", ":".join(map(str, class_path)), "-d", str(classes), str(_folder(layout) / "src"),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if answer.returncode != 0:
        raise TerminalError(f"connect/ does not compile:\n{answer.stdout}{answer.stderr}")
    with zipfile.ZipFile(target / JAR, "w") as packed:
        for folder in (classes, _folder(layout) / "resources"):
            for path in sorted(found for found in folder.rglob("*") if found.is_file()):
                packed.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix(), _MADE), path.read_bytes())
    shutil.rmtree(classes)


def _put(jar: Path, target: Path) -> None:
    if not target.is_file() or target.read_bytes() != jar.read_bytes():
        # A worker that runs reads on in the old file.
        fresh = target.with_name(f"{target.name}.new")
        shutil.copyfile(jar, fresh)
        fresh.replace(target)
