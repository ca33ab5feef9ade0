"""Whether files of transforms are SQL, or Python, at all: read without a server, a JVM or a catalogue. What their
columns are only Spark's analysis knows (`seamline.analysis`)."""

import ast
from collections.abc import Iterator
from pathlib import Path

from seamline.spec.faults import Fault
from seamline.spec.load import Declarations
from seamline.spec.transforms import file_of, texts_of

_FUNCTION = "transform"


def syntax_faults(declarations: Declarations, folder: Path) -> list[Fault]:
    """Of each file that a sync names, the first mistake. `folder`: of all declarations."""
    texts = texts_of(declarations.syncs.values(), folder)
    return [
        Fault(file_of(declared, folder), line, "", what, cure)
        for declared, text in texts.items()
        for line, what, cure in (_of_python(text) if declared.endswith(".py") else _of_sql(text))
    ]


def _of_python(text: str) -> Iterator[tuple[int, str, str]]:
    try:
        tree = ast.parse(text)
    except SyntaxError as exc:
        yield exc.lineno or 1, f"this is not Python: {exc.msg}", "Correct it"
        return
    except ValueError as exc:
        yield 1, f"this is not Python: {exc}", "Correct it"
        return
    names = {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}
    # It may be imported, or made by a decorator's own way; Spark's analysis calls it.
    is_bound = any(isinstance(one, ast.Import | ast.ImportFrom | ast.Assign) for one in tree.body)
    if _FUNCTION not in names and not is_bound:
        yield 1, f"there is no function `{_FUNCTION}`", f"Write `def {_FUNCTION}(…)`, which returns a DataFrame"


def _of_sql(text: str) -> Iterator[tuple[int, str, str]]:
    # Only here: it takes a third of a second to load, and most commands read no transform.
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import ParseError, TokenError

    try:
        queries = [one for one in sqlglot.parse(text, dialect="spark") if one is not None]
    except ParseError as exc:
        first = exc.errors[0] if exc.errors else {}
        near = f" near `{first['highlight']}`" if first.get("highlight") else ""
        cure = "Correct it; a column that is called as a word of SQL stands in `backticks`"
        yield int(first.get("line") or 1), f"this is not SQL of Spark{near}", cure
        return
    except TokenError as exc:
        what = str(exc).splitlines()[0]
        yield 1, f"this is not SQL of Spark: {what}", "Is a quote or a comment left open?"
        return
    if len(queries) != 1 or not isinstance(queries[0], exp.Query):
        yield 1, "it holds something else than one query", "Write one SELECT"
