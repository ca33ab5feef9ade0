"""The text of a sync's file with one change that a person asked for by a form: every other letter stays as it is.

Where a change belongs is known by the marks of PyYAML's nodes. What comes out is read again, and must say what the file
said before and the change, nothing else.
"""

import difflib
import hashlib
import json
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

import yaml

from seamline.domain.declared_change import Change
from seamline.domain.errors import ConfigError, Refused
from seamline.spec.load import Declarations, load_sync

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")
_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FOLDERS = ("sources", "destinations", "syncs", "expectations", "transforms", "calendars")
_BY_HAND = "edit the file itself, and have it read by somebody else"


def sync_file(folder: Path, sync: str) -> Path:
    return folder / "syncs" / f"{sync}.yaml"


def text_of(file: Path) -> str:
    """With its ends of lines. Refused: there is no such file, or it is not UTF-8."""
    try:
        return file.read_bytes().decode()
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"{file.name} cannot be read: {error}", hint=_BY_HAND) from error


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def changed(text: str, change: Change, value: str) -> str:
    """Refused: the value is not valid, the file has it already, or has a form in which its place is not found."""
    root, said = _read(text), _said(text)
    if change is Change.TABLE:
        made = _with_table(text, root, value)
        wanted: dict[str, Any] = {**said, "tables": [*said["tables"], value]}
    else:
        made = _with_time(text, root, change.value, value)
        wanted = {**said, "nightly": {**said["nightly"], change.value: value}}
    if wanted == said:
        raise Refused(f"the declaration says so already: {value}")
    if _said(made) != wanted:
        raise Refused("the file has a form that is not changed from here", hint=_BY_HAND)
    return made


def difference(before: str, after: str, name: str) -> str:
    """The lines that differ, as `diff -u` writes them."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), name, name, lineterm="", n=2)
    return "\n".join(lines)


def checked(folder: Path, sync: str, text: str) -> Declarations:
    """What the folder would declare of the sync with this text. Raises as `load_sync` does."""
    with tempfile.TemporaryDirectory() as place:
        for name in _FOLDERS:
            if (folder / name).is_dir():
                shutil.copytree(folder / name, Path(place) / name)
        file = sync_file(Path(place), sync)
        file.write_bytes(text.encode())
        return load_sync(file)


def put(file: Path, text: str) -> None:
    """In one step, so that nobody reads half of it. ConfigError: this process may not write there."""
    beside = file.with_name(f".{file.name}.new")
    try:
        beside.write_bytes(text.encode())
        shutil.copymode(file, beside)
        beside.replace(file)
    except OSError as error:
        raise ConfigError(
            f"Airflow's server may not write {file.name}: {error.strerror}",
            hint="give the lines below to whoever keeps the declarations, or let the server write their folder",
        ) from error


def _read(text: str) -> yaml.MappingNode:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise Refused("the file is not YAML", hint=_BY_HAND) from error
    if not isinstance(node, yaml.MappingNode):
        raise Refused("the file is empty or not a mapping", hint=_BY_HAND)
    return node


def _said(text: str) -> dict[str, Any]:
    try:
        said: dict[str, Any] = yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise Refused("the file is not YAML", hint=_BY_HAND) from error
    return said


def _value(node: yaml.MappingNode, key: str) -> yaml.Node | None:
    return next((value for name, value in node.value if name.value == key), None)


def _with_table(text: str, root: yaml.MappingNode, name: str) -> str:
    tables = _value(root, "tables")
    if not isinstance(tables, yaml.SequenceNode) or not tables.value:
        raise Refused("the file lists no tables", hint=_BY_HAND)
    written = name if _PLAIN_NAME.fullmatch(name) and isinstance(yaml.safe_load(name), str) else json.dumps(name)
    return _behind(text, tables, flow=written, block=f"- {written}")


def _with_time(text: str, root: yaml.MappingNode, key: str, time: str) -> str:
    if not _TIME.fullmatch(time):
        raise Refused(f"{time!r} is no time of day", hint="write it as 00:30")
    nightly = _value(root, "nightly")
    if not isinstance(nightly, yaml.MappingNode) or not nightly.value:
        raise Refused("the sync declares no nights", hint=_BY_HAND)
    known = _value(nightly, key)
    if known is not None:
        return f'{text[: known.start_mark.index]}"{time}"{text[known.end_mark.index :]}'
    written = f'{key}: "{time}"'
    return _behind(text, nightly, flow=written, block=written)


def _behind(text: str, node: yaml.CollectionNode, *, flow: str, block: str) -> str:
    """With one more item behind the last one."""
    last = _last(node)
    if node.flow_style:
        return f"{text[: last.end_mark.index]}, {flow}{text[last.end_mark.index :]}"
    lines = text.splitlines(keepends=True)
    end = "\r\n" if lines[0].endswith("\r\n") else "\n"
    at = _last_line(node) + 1
    before = "".join(lines[:at])
    indent = " " * node.start_mark.column
    return f"{before}{'' if before.endswith(end) else end}{indent}{block}{end}{''.join(lines[at:])}"


def _last(node: yaml.CollectionNode) -> yaml.Node:
    child = node.value[-1]
    found: yaml.Node = child[1] if isinstance(child, tuple) else child
    return found


def _last_line(node: yaml.Node) -> int:
    """From 0. PyYAML lets a block end where the next one begins, behind comments of another block."""
    while isinstance(node, yaml.CollectionNode) and not node.flow_style and node.value:
        node = _last(node)
    return int(node.end_mark.line)
