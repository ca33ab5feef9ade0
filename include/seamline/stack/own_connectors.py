"""Compiles connect/: the project's own classes, a jar for each plugin of Debezium's that they extend, and one alone."""

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
# A plugin each, and the folders in connect/ that its classes are of.
_FOLDERS = {
    "mariadb": ("shared", "binlog", "mariadb"),
    "mysql": ("shared", "binlog", "mysql"),
    "postgres": ("shared", "postgres"),
}
KINDS = tuple(_FOLDERS)
# Those that extend nothing of Debezium's: the plugin is a folder with the one jar.
ALONE = ("kafka",)
_NEEDED = {"compiler", "debezium", "kafka"}
# A jar of the same classes is the same file, whenever it is made.
_MADE = (2026, 1, 1, 0, 0, 0)


def compile_into_plugins(files: Iterable[LockedFile], layout: Layout, environment: Mapping[str, str]) -> None:
    """Once per state of connect/ and of what it is compiled against; nothing where those jars were not asked for."""
    used = [file for file in files if file.configuration in _NEEDED]
    if {file.configuration for file in used} != _NEEDED:
        return
    state = hashlib.sha256("".join(file.sha256 for file in used).encode())
    for source in sorted(path for path in _folder(layout).rglob("*") if path.is_file()):
        state.update(source.read_bytes())
    jars.make_once(layout.own_connectors, state.hexdigest(), partial(_compile_all, layout, environment))
    for kind in (*KINDS, *ALONE):
        for plugin in _plugins(layout, kind):
            plugin.mkdir(exist_ok=True)
            _put(layout.own_connectors / kind / JAR, plugin / JAR)


def _folder(layout: Layout) -> Path:
    return layout.settings.root / "connect"


def _plugins(layout: Layout, kind: str) -> list[Path]:
    if kind in ALONE:
        return [layout.connect_plugins / f"{jars.PLUGIN_ALONE}{kind}"]
    return list(layout.connect_plugins.glob(f"debezium-connector-{kind}-*"))


def _compile_all(layout: Layout, environment: Mapping[str, str], target: Path) -> None:
    for kind in (*KINDS, *ALONE):
        _compile(kind, layout, environment, target / kind)


def _compile(kind: str, layout: Layout, environment: Mapping[str, str], target: Path) -> None:
    (compiler,) = (layout.jars / "compiler").glob("ecj-*.jar")
    (plugin,) = _plugins(layout, kind)
    parts = [_folder(layout) / name for name in _FOLDERS.get(kind, (kind,))]
    class_path = [
        *sorted((layout.jars / "kafka").glob("*.jar")),
        *sorted(path for path in plugin.glob("*.jar") if path.name != JAR),
    ]
    classes = target / "classes"
    command = [
        str(java.find(layout, environment).binary), "-jar", str(compiler), "-17", "-proc:none",
        "-cp", ":".join(map(str, class_path)), "-d", str(classes), *(str(part / "src") for part in parts),
    ]  # fmt: skip
    answer = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    if answer.returncode != 0:
        raise TerminalError(f"connect/ does not compile:\n{answer.stdout}{answer.stderr}")
    with zipfile.ZipFile(target / JAR, "w") as packed:
        for folder in (classes, *(part / "resources" for part in parts)):
            for path in sorted(found for found in folder.rglob("*") if found.is_file()):
                packed.writestr(zipfile.ZipInfo(path.relative_to(folder).as_posix(), _MADE), path.read_bytes())
    shutil.rmtree(classes)


def not_in_place(layout: Layout) -> list[Path]:
    """Where a plugin lacks its jar, or has another one."""
    return [
        plugin / JAR
        for kind in (*KINDS, *ALONE)
        for plugin in _plugins(layout, kind)
        if not _is_copy(layout.own_connectors / kind / JAR, plugin / JAR)
    ]


def _is_copy(jar: Path, target: Path) -> bool:
    return jar.is_file() and target.is_file() and target.read_bytes() == jar.read_bytes()


def _put(jar: Path, target: Path) -> None:
    if not _is_copy(jar, target):
        # A worker that runs reads on in the old file.
        fresh = target.with_name(f"{target.name}.new")
        shutil.copyfile(jar, fresh)
        fresh.replace(target)
