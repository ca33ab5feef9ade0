"""Every error with a cure as a page for people, made from where the code raises it."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from seamline.domain import errors
from seamline.domain.errors import SeamlineError

PAGE = "docs/reference/errors.md"
FOLDERS = ("include/seamline", "plugins/seamline_airflow", "spark_jobs/seamline_spark")
_HEAD = """\
# Errors: cause and cure

Made from the code by `./seamline schema`; a test holds it current. An error ends with a line that begins with `→` and
says how to mend it. Where `<…>` stands here, the error has the value. Mistakes in declarations are listed by
`./seamline validate`, each with file, line, cause and cure; what servers deny, by `./seamline validate --online`
([what is refused](../how-to/your-own-database.md#what-is-refused)).
"""
_COLUMNS = "| error | how to mend it | in |\n|---|---|---|"


@dataclass(frozen=True, slots=True)
class Raised:
    kind: str
    cause: str
    cure: str
    module: str


def page(root: Path) -> str:
    found = sorted(set(raised(root)), key=lambda one: (one.module, one.cause, one.cure))
    parts = [_HEAD]
    for kind in _kinds():
        mine = [one for one in found if one.kind == kind.__name__]
        if mine:
            rows = [f"| {one.cause} | {one.cure} | {one.module} |" for one in mine]
            said = " ".join((kind.__doc__ or "").split())
            parts.append(f"## {kind.__name__}\n\n{said} Exit code {kind.exit_code}.\n\n{_COLUMNS}")
            parts += [*rows, ""]
    return "\n".join(parts)


def _kinds() -> list[type[SeamlineError]]:
    """In the order in which they are declared."""
    return [
        one
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, SeamlineError) and one is not SeamlineError
    ]


def raised(root: Path) -> Iterator[Raised]:
    """Those whose cause and cure are texts where they are raised."""
    names = {one.__name__ for one in _kinds()}
    for folder in FOLDERS:
        for file in sorted((root / folder).rglob("*.py")):
            module = file.relative_to(root).with_suffix("").as_posix().removeprefix("include/").replace("/", ".")
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                    hint = next((one.value for one in node.keywords if one.arg == "hint"), None)
                    cause, cure = _text(node.args[0] if node.args else None), _text(hint)
                    if cause and cure:
                        yield Raised(node.func.id, cause, cure, module.rsplit(".", 1)[-1])


def _text(node: ast.expr | None) -> str:
    """The text of a cell; "" where it is made elsewhere."""
    match node:
        case ast.Constant(value=str() as text):
            return _cell(text)
        case ast.JoinedStr(values=parts):
            return _cell("".join(str(part.value) if isinstance(part, ast.Constant) else _name(part) for part in parts))
    return ""


def _name(part: ast.expr) -> str:
    """What a value is called: the last word of what it is read from."""
    value = part.value if isinstance(part, ast.FormattedValue) else part
    match value:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return f"<{name}>"
    return "<…>"


def _cell(text: str) -> str:
    # Signs that Markdown would take for its own; within backticks it takes none but the bar.
    plain = " ".join(text.replace("|", "\\|").split())
    parts = re.split(r"(`[^`]*`)", plain)
    return "".join(part if part.startswith("`") else re.sub(r"([<*_\[])", r"\\\1", part) for part in parts)
