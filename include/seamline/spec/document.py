"""A YAML document whose every value still knows its line.

PyYAML's composed nodes keep the lines; its loaders drop them. Duplicate keys, which YAML's loaders silently take the
last of, are faults here; so are anchors and merge keys, because a declaration is read by people first.
"""

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import Composer
from yaml.resolver import Resolver

from seamline.spec.faults import Fault

if yaml.__with_libyaml__:
    from yaml._yaml import CParser

Path_ = tuple[str | int, ...]

# What a path repeats of a file: a longer or stranger key may be an address.
_KEY = re.compile(r"[\w.-]{0,63}")
# What is longer is no number that a declaration needs, and Python does not print it.
_NUMBER_BITS_MAX = 128
_RESOLVER = Resolver()


@dataclass(slots=True)
class Document:
    """`data` is the document as plain values; `lines` and `plain` are kept by the place of each value in the file.

    `plain` is the text of an unquoted scalar that YAML read as something else than a string: `7:00` is 420 to YAML.
    `called` is what a sync calls the tables that are named at these places.
    `written` is where keys that were renamed in `data` stand in the file; faults are reported there.
    """

    file: Path
    data: Any = None
    lines: dict[Path_, int] = field(default_factory=dict)
    plain: dict[Path_, str] = field(default_factory=dict)
    written: dict[Path_, Path_] = field(default_factory=dict)
    called: dict[Path_, str] = field(default_factory=dict)
    faults: list[Fault] = field(default_factory=list)

    def line(self, path: Path_) -> int:
        """The line of a value, or of the nearest value around it."""
        path = self.as_written(path)
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)

    def fault(self, path: Path_, cause: str, cure: str = "") -> None:
        self.faults.append(Fault(self.file, self.line(path), path_text(self.as_written(path)), cause, cure))

    def causes(self, path: Path_) -> list[str]:
        """What is reported of this very place."""
        at = path_text(self.as_written(path))
        return [fault.cause for fault in self.faults if fault.path == at]

    def is_right(self, path: Path_) -> bool:
        """No fault stands at this place or inside it."""
        at = path_text(self.as_written(path))
        return not any(fault.path == at or fault.path.startswith((f"{at}.", f"{at}[")) for fault in self.faults)

    def value(self, path: Path_) -> Any:
        """What stands at a place; None where nothing does."""
        at = self.data
        for part in path:
            is_there = part in at if isinstance(at, dict) else isinstance(at, list) and isinstance(part, int)
            at = at[part] if is_there else None
        return at

    def texts(self, *patterns: str) -> list[tuple[Path_, str]]:
        """(place, text) of each text at a place such as `tables[].name`, in the order of a list. What is no text is
        passed over: its type is a fault already."""
        found = (hit for pattern in patterns for hit in _at(self.data, (), pattern.split(".")))
        return sorted((place, value) for place, value in found if isinstance(value, str))

    def rename(self, path: Path_, key: str) -> None:
        """Give the key at `path` another name in `data`."""
        around = self.value(path[:-1])
        renamed = {key if old == path[-1] else old: value for old, value in around.items()}
        around.clear()
        around.update(renamed)
        self.written[(*path[:-1], key)] = self.as_written(path)

    def as_written(self, path: Path_) -> Path_:
        """The place in the file of a place in `data`."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.written:
                return (*self.written[path[:length]], *path[length:])
        return path


def path_text(path: Path_) -> str:
    """`("tables", 1, "name")` as `tables[1].name`."""
    text = ""
    for part in path:
        word = part if isinstance(part, int) or _KEY.fullmatch(part) else "…"
        text += f"[{word}]" if isinstance(part, int) else f".{word}" if text else str(word)
    return text


def _at(value: Any, place: Path_, steps: Sequence[str]) -> Iterator[tuple[Path_, Any]]:
    """What stands below `value` at these steps; one that ends in `[]` leads to every item of a list, one that ends in
    `{}` to every value of a mapping."""
    if not steps:
        yield place, value
        return
    key = steps[0].removesuffix("[]").removesuffix("{}")
    inner = value.get(key) if isinstance(value, dict) else None
    if key == steps[0]:
        yield from _at(inner, (*place, key), steps[1:])
    elif steps[0].endswith("{}") and isinstance(inner, dict):
        for name, item in inner.items():
            yield from _at(item, (*place, key, name), steps[1:])
    elif steps[0].endswith("[]") and isinstance(inner, list):
        for number, item in enumerate(inner):
            yield from _at(item, (*place, key, number), steps[1:])


if yaml.__with_libyaml__:

    class _Quick(Composer, CParser, Resolver):
        """libyaml's parser, at a quarter of the time. Its own composer would end the process where a file is nested too
        deep; PyYAML's raises RecursionError."""

        def __init__(self, text: str) -> None:
            CParser.__init__(self, text)
            Composer.__init__(self)
            Resolver.__init__(self)


def read_document(file: Path) -> Document:
    """Read a YAML file. What YAML itself cannot read becomes the only fault of the document."""
    document = Document(file)
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        document.fault((), f"the file cannot be read: {error}")
        return document
    _parse(document, text)
    return document


def _parse(document: Document, text: str) -> None:
    try:
        node = _composed(text)
    except yaml.composer.ComposerError as error:
        document.lines[()] = error.problem_mark.line + 1 if error.problem_mark else 1
        document.fault((), "anchors and aliases are not used in declarations", "Write the value out")
        return
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        document.lines[()] = mark.line + 1 if mark else 1
        document.fault((), f"this is not YAML: {error.problem or error.context}", "Check indents, colons and quotes")
        return
    except (OverflowError, yaml.YAMLError) as error:
        document.fault((), f"the file cannot be read: {error}")
        return
    except RecursionError:
        document.fault((), "lists or mappings are nested too deep", "A declaration needs five levels at most")
        return
    if not isinstance(node, yaml.MappingNode):
        document.fault((), "the file is empty or not a mapping", "It holds `key: value` lines")
        return
    document.lines[()] = 1
    document.data = _value(document, node, (), set())


def _composed(text: str) -> yaml.Node | None:
    """What PyYAML makes of it. libyaml takes tabs, which PyYAML refuses, and has other words for what is wrong."""
    if yaml.__with_libyaml__ and "\t" not in text:
        try:
            return _Quick(text).get_single_node()
        except yaml.YAMLError:
            pass
    return yaml.compose(text, Loader=yaml.SafeLoader)


def document_of(file: Path) -> Document:
    """The same, for what only looks, as pages do many times over: parsed once for each text that the file has had.
    Nobody may change the document."""
    try:
        return _parsed(file, file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return read_document(file)


@lru_cache(maxsize=1_024)
def _parsed(file: Path, text: str) -> Document:
    document = Document(file)
    _parse(document, text)
    return document


def _value(document: Document, node: yaml.Node, path: Path_, seen: set[int]) -> Any:
    document.lines.setdefault(path, node.start_mark.line + 1)
    if id(node) in seen:
        document.fault(path, "anchors and aliases are not used in declarations", "Write the value out")
        return None
    seen.add(id(node))
    if node.tag != _tag_without_one(node):
        document.fault(path, "tags are not used in declarations", "Take out what begins with `!`")
        return None
    if isinstance(node, yaml.MappingNode):
        return _mapping(document, node, path, seen)
    if isinstance(node, yaml.SequenceNode):
        return [_value(document, item, (*path, number), seen) for number, item in enumerate(node.value)]
    assert isinstance(node, yaml.ScalarNode)  # the only kind of node left
    return _scalar(document, node, path)


def _tag_without_one(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        is_plain = not node.style
        return str(_RESOLVER.resolve(yaml.ScalarNode, node.value, (is_plain, not is_plain)))  # type: ignore[no-untyped-call]
    return "tag:yaml.org,2002:map" if isinstance(node, yaml.MappingNode) else "tag:yaml.org,2002:seq"


def _mapping(document: Document, node: yaml.MappingNode, path: Path_, seen: set[int]) -> dict[Hashable, Any]:
    values: dict[Hashable, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        if not isinstance(key_node, yaml.ScalarNode):
            document.faults.append(Fault(document.file, line, path_text(path), "a key must be a plain word"))
            continue
        key = key_node.value
        place = (*path, key)
        if key_node.tag == "tag:yaml.org,2002:merge":
            document.faults.append(
                Fault(document.file, line, path_text(place), "merge keys are not used in declarations", "Write it out")
            )
            continue
        if key in values:
            first = document.lines[place]
            document.faults.append(
                Fault(document.file, line, path_text(place), f"this key is already on line {first}", "Keep one of them")
            )
            continue
        document.lines[place] = line
        values[key] = _value(document, value_node, place, seen)
    return values


def _scalar(document: Document, node: yaml.ScalarNode, path: Path_) -> Any:
    """Neither the text nor YAML's own words are reported of one that cannot be read: they may hold a secret."""
    try:
        value = yaml.constructor.SafeConstructor().construct_object(node)
    except (yaml.YAMLError, ValueError, ArithmeticError, LookupError, AttributeError, TypeError):
        document.fault(path, "cannot be read as what it looks like", "Write it in quotes")
        return None
    if isinstance(value, int) and value.bit_length() > _NUMBER_BITS_MAX:
        document.fault(path, "is a number that nobody can mean", "Write a smaller one, or quotes around a text")
        return None
    if not node.style and not isinstance(value, str):
        document.plain[path] = node.value
    return value
