"""The texts of the page, as its sources have them: what is wrapped for translation, and what is seen and is not."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from jinja2 import Environment, nodes

# Seen the same in every language: names of file formats, and of a missing value.
SAME = {"XLSX", "PDF", "CSV", "JSON", "NULL", "SHA"}
_SEEN_ATTRIBUTES = {"title", "placeholder", "alt", "aria-label", "label"}
# What keeps a moment on one line.
_UNBROKEN = re.compile(r'<span class="at">([^<]*)</span>')
# Texts of programs: file names, commands, identities.
_CODE = {"code", "pre", "style", "script"}
_WRAPPING = {"_", "gettext", "ngettext"}
# A word of an enumeration that no `term` translates.
_AS_IT_IS = ".value without `term`"
# Where an expression stands in the HTML while it is parsed: one sign of a private use area, numbered.
_FIRST = 0xF0000
_PLACE = re.compile("[\U000f0000-\U000ffffd]")
_ADDRESS = re.compile("^[a-z_.]+[?]$|(^|[a-z_.]+[?]|[&?])[a-z_]+=([\U000f0000-\U000ffffd]|%s)?")


@dataclass
class Found:
    wrapped: set[str] = field(default_factory=set)
    unwrapped: list[str] = field(default_factory=list)


def _is_words(text: str) -> bool:
    plain = _ADDRESS.sub("", _PLACE.sub(" ", text))
    words = re.findall(r"[^\W\d_]+", plain)
    return bool(words) and not set(words) <= SAME


class _Seen(HTMLParser):
    """What a person sees of a piece of HTML, and which expressions stand there."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.places: set[int] = set()
        self._code = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._code += tag in _CODE
        is_button = tag == "input" and dict(attrs).get("type") in ("submit", "button", "reset")
        for name, value in attrs:
            if name in _SEEN_ATTRIBUTES or (is_button and name == "value"):
                self.handle_data(value or "")

    def handle_endtag(self, tag: str) -> None:
        self._code -= tag in _CODE

    def handle_data(self, data: str) -> None:
        self.places |= {ord(one) - _FIRST for one in _PLACE.findall(_ADDRESS.sub("", data))}
        if not self._code and _is_words(data):
            self.texts.append(_PLACE.sub("…", data).strip())


def flowing(text: str) -> str:
    """A page without what keeps its moments on one line, so that a sentence can be looked for."""
    return _UNBROKEN.sub(r"\1", text)


def breakable(text: str) -> list[str]:
    """Moments that a page shows and a narrow place may break over lines; those in attributes are not shown."""
    return re.findall(r"\d{4}-\d\d-\d\d \d\d:\d\d", re.sub(r"<[^>]*>", "", _UNBROKEN.sub("", text)))


class _Template:
    def __init__(self, codes: Iterable[str]) -> None:
        self.found, self._codes = Found(), set(codes)
        self._html: list[str] = []
        self._expressions: list[nodes.Expr] = []

    def read(self, tree: nodes.Template) -> Found:
        self._statements(tree.body)
        seen = _Seen()
        seen.feed("".join(self._html))
        seen.close()
        self.found.unwrapped += seen.texts
        for number, one in enumerate(self._expressions):
            self._collect(one, is_seen=number in seen.places)
        return self.found

    def _statements(self, body: Iterable[nodes.Node]) -> None:
        for node in body:
            match node:
                case nodes.Output():
                    for one in node.nodes:
                        self._html.append(one.data if isinstance(one, nodes.TemplateData) else self._place(one))
                case nodes.Assign():
                    self._collect(node.node, is_seen=True, is_kept=True)
                case nodes.For():
                    self._collect(node.iter, is_seen=True)
                    self._statements([*node.body, *node.else_])
                case nodes.If():
                    self._statements([*node.body, *node.elif_, *node.else_])
                case _:
                    self._statements(node.iter_child_nodes())

    def _place(self, expression: nodes.Expr) -> str:
        self._expressions.append(expression)
        return chr(_FIRST + len(self._expressions) - 1)

    def _collect(self, node: nodes.Node, *, is_seen: bool, is_kept: bool = False) -> None:
        """What is wrapped anywhere in an expression, and of what it may give the texts that are not. `is_kept`: under a
        name, so that it may be compared before it is seen."""
        for call in [node, *node.find_all(nodes.Call)]:
            if not isinstance(call, nodes.Call):
                continue
            if isinstance(call.node, nodes.Name) and call.node.name in _WRAPPING:
                number = 2 if call.node.name == "ngettext" else 1
                self.found.wrapped |= {str(one.value) for one in call.args[:number] if isinstance(one, nodes.Const)}
        filters = [one for one in (node, *node.find_all(nodes.Filter)) if isinstance(one, nodes.Filter)]
        terms = [one.node for one in filters if one.name == "term"]
        self.found.wrapped |= {one.value for one in terms if isinstance(one, nodes.Const)}
        if is_seen:
            skipped = {*self._codes, _AS_IT_IS} if is_kept else self._codes
            self.found.unwrapped += [text for text in _results(node) if _is_words(text) and text not in skipped]


def _results(node: nodes.Node) -> Iterator[str]:
    """Texts that the expression may give, or hands to a macro; not those that it only compares with. A word of an
    enumeration that is given as it is counts as one."""
    match node:
        case nodes.Const():
            yield from [node.value] if isinstance(node.value, str) else []
        case nodes.Getattr() if node.attr == "value":
            yield _AS_IT_IS
        case nodes.Call():
            yield from _of_call(node)
        case _:
            yield from (text for one in _parts(node) for text in _results(one))


def _parts(node: nodes.Node) -> Iterable[nodes.Node]:
    """Of what the expression is put together, or chooses."""
    match node:
        case nodes.CondExpr():
            return [one for one in (node.expr1, node.expr2) if one]
        case nodes.BinExpr():
            return node.left, node.right
        case nodes.Concat():
            return node.nodes
        case nodes.Tuple() | nodes.List():
            return node.items
        case nodes.Dict():
            return [one.value for one in node.items]
        case nodes.Filter() | nodes.Getitem() if node.node is not None and getattr(node, "name", "") != "term":
            return [node.node]
    return ()


def _of_call(call: nodes.Call) -> Iterator[str]:
    if isinstance(call.node, nodes.Name) and call.node.name in _WRAPPING:
        given = [one.value for one in call.kwargs]
    elif isinstance(call.node, nodes.Getattr) and call.node.attr == "get":
        yield from _results(call.node.node)
        given = call.args[1:]
    else:
        # What a macro is given may be compared there, so a word of an enumeration is no finding.
        given = [one for one in (*call.args, *(one.value for one in call.kwargs)) if not isinstance(one, nodes.Getattr)]
    yield from (text for one in given for text in _results(one))


def of_template(source: str, environment: Environment, codes: Iterable[str] = ()) -> Found:
    """`codes`: texts in expressions that nobody sees as they are, as names of routes."""
    return _Template(codes).read(environment.parse(source))


def of_python(file: Path) -> Found:
    """The patterns of its phrases. One that is no constant cannot be looked up by a translator."""
    found = Found()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "phrase":
            match node.args:
                case [ast.Constant(value=str(text))]:
                    found.wrapped.add(text)
                case _:
                    found.unwrapped.append(f"{file.name}:{node.lineno}")
    return found


def placeholders(text: str) -> list[str]:
    """Values and tags of a text, in a fixed order; both languages have the same. A `%` stands doubled."""
    return sorted(re.findall(r"%\(\w+\)s|%%|%|<[^>]*>", text))
