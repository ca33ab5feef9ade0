"""The house rules that no linter knows. Each takes one file and says what is wrong and what to do instead."""

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
CONFTEST_LINES_MAX = 60
TEST_NAME_WORDS_MIN = 3

# Process edges: the only places that may catch everything, because there it is reported and the process or its unit of
# work ends. Path → what ends there.
EDGES: dict[str, str] = {
    "include/seamline/sync/late_postings.py": "a thread that must outlive our own mistakes",
    "include/seamline/sync/source_watch.py": "a thread that must outlive our own mistakes",
    "spark_jobs/seamline_spark/transform/function.py": "calls a function that somebody else has written",
}
BANNED_NAMES = {
    "utils": "name the noun it serves",
    "util": "name the noun it serves",
    "helpers": "name the noun it serves",
    "helper": "name the noun it serves",
    "manager": "name what it does",
    "base": "name the contract, as a protocol in ports.py",
    "common": "name the noun it serves",
    "misc": "name the noun it serves",
}
BANNED_WORDS = {
    "blacklist": "say what is refused",
    "whitelist": "say what is allowed",
    "utilize": "use",
    "leverage": "use",
    "simply": "leave it out",
    "obviously": "leave it out",
    "sanity check": "check",
    "seamless": "say what happens",
    "best-effort": "say what is not promised",
}
UNFINISHED = ("TODO", "FIXME", "XXX", "HACK")
REGISTRY_HOSTS = ("pypi.org", "pythonhosted.org", "maven.org", "maven.apache.org", "ghcr.io", "quay.io", "registry-1.")
_HOMES = re.compile(r"(?<![\w.\-$}/])/(?:home|Users|root)/\w")
TEXT_SUFFIXES = {".py", ".md", ".yaml", ".yml", ".toml", ".sh", ".html", ".css", ".js", ".xml", ".sql", ".txt", ""}
# These list what is banned, so they name it.
_EXEMPT = ("tests/unit/tidy_rules.py", "tests/unit/test_tidy.py")


@dataclass(frozen=True)
class File:
    """A file of the checkout. `path` is relative to it, with slashes."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def is_python(self) -> bool:
        return self.path.endswith(".py")

    @property
    def is_test(self) -> bool:
        return self.path.startswith("tests/")

    @cached_property
    def functions(self) -> list[ast.FunctionDef | ast.AsyncFunctionDef]:
        return [node for node in ast.walk(self.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]


Rule = Callable[[File], Iterator[str]]


def lengths_of_files(file: File) -> Iterator[str]:
    limit = CONFTEST_LINES_MAX if file.path == "tests/conftest.py" else FILE_LINES_MAX
    lines = file.text.count("\n")
    if lines > limit:
        yield f"has {lines} lines, at most {limit}: split it by what it is about"


def lengths_of_functions(file: File) -> Iterator[str]:
    for function in file.functions if file.is_python else ():
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        if lines > FUNCTION_LINES_MAX:
            yield f"{function.lineno}: {function.name} has {lines} lines, at most {FUNCTION_LINES_MAX}"


def boolean_parameters(file: File) -> Iterator[str]:
    if not file.is_python or file.is_test:
        return
    for function in file.functions:
        if function.name.startswith("_"):
            continue
        arguments = function.args
        given = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        for argument in given:
            if argument.annotation is not None and "bool" in _names(argument.annotation):
                yield f"{function.lineno}: {function.name}({argument.arg}: bool): use an enum or two functions"


def _names(annotation: ast.expr) -> set[str]:
    """The plain types of an annotation, those of a union too; not what a callable or a container is made of."""
    if isinstance(annotation, ast.BinOp):
        return _names(annotation.left) | _names(annotation.right)
    return {annotation.id} if isinstance(annotation, ast.Name) else set()


def broad_excepts(file: File) -> Iterator[str]:
    if not file.is_python or file.path in EDGES:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.ExceptHandler) and _is_broad(node.type) and not _raises_again(node):
            yield f"{node.lineno}: catches everything; name the exceptions, or list the file as a process edge"
        if isinstance(node, ast.Call) and _called(node) == "suppress" and any(map(_is_broad, node.args)):
            yield f"{node.lineno}: suppresses everything; name the exceptions"


def _raises_again(handler: ast.ExceptHandler) -> bool:
    """Cleans up and lets the error go on: nothing is swallowed."""
    last = handler.body[-1]
    return isinstance(last, ast.Raise) and last.exc is None


def _is_broad(caught: ast.expr | None) -> bool:
    if caught is None:
        return True
    members = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(isinstance(member, ast.Name) and member.id in ("Exception", "BaseException") for member in members)


def _called(call: ast.Call) -> str:
    match call.func:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name
    return ""


def banned_names(file: File) -> Iterator[str]:
    for part in PurePosixPath(file.path).parts:
        stem = part.split(".")[0]
        for word in stem.lower().split("_"):
            if word in BANNED_NAMES:
                yield f"is named {part}: {BANNED_NAMES[word]}"
    for node in ast.walk(file.tree) if file.is_python else ():
        if isinstance(node, ast.ClassDef):
            last = re.findall(r"[A-Z][a-z]*", node.name)[-1:] or [""]
            if last[0].lower() in BANNED_NAMES:
                yield f"{node.lineno}: class {node.name}: {BANNED_NAMES[last[0].lower()]}"


def banned_words(file: File) -> Iterator[str]:
    if file.path in _EXEMPT:
        return
    for number, line in enumerate(file.text.splitlines(), 1):
        for word, instead in BANNED_WORDS.items():
            if re.search(rf"\b{word}\b", line, re.IGNORECASE):
                yield f"{number}: `{word}`: {instead}"
        for word in UNFINISHED:
            if re.search(rf"\b{word}\b", line):
                yield f"{number}: {word}: finish it, or write an issue"


def machine_paths(file: File) -> Iterator[str]:
    if file.path in _EXEMPT:
        return
    # Wherever this checkout lies, its own path has no place in it.
    mine = str(Path(__file__).resolve().parents[2])
    for number, line in enumerate(file.text.splitlines(), 1):
        if _HOMES.search(line) or mine in line:
            yield f"{number}: a path of one machine: start from the checkout or from the settings"
        for host in REGISTRY_HOSTS:
            # An image that is not on the default registry is named by its host.
            if host in line and not line.startswith("FROM "):
                yield f"{number}: names the registry host {host}: clients know their registries"


def sleeps_in_tests(file: File) -> Iterator[str]:
    if not file.is_test or not file.is_python:
        return
    for node in ast.walk(file.tree):
        if isinstance(node, ast.Call) and _called(node) == "sleep":
            yield f"{node.lineno}: sleeps: wait for a condition with tests.waiting.wait_until"


def names_of_tests(file: File) -> Iterator[str]:
    if not file.is_test or not file.is_python:
        return
    for function in file.functions:
        words = function.name.split("_")
        if words[0] == "test" and len(words) - 1 < TEST_NAME_WORDS_MIN:
            yield f"{function.lineno}: {function.name}: a test is named for the sentence that it proves"


def one_title(file: File) -> Iterator[str]:
    if not file.path.endswith(".md"):
        return
    titles, is_code = [], False
    for number, line in enumerate(file.text.splitlines(), 1):
        if line.startswith("```"):
            is_code = not is_code
        elif line.startswith("# ") and not is_code:
            titles.append(number)
    if len(titles) != 1:
        yield f"has {len(titles)} titles (lines {titles}), must have one"


RULES: tuple[Rule, ...] = (
    lengths_of_files,
    lengths_of_functions,
    boolean_parameters,
    broad_excepts,
    banned_names,
    banned_words,
    machine_paths,
    sleeps_in_tests,
    names_of_tests,
    one_title,
)
