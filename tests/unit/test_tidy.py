"""The house rules hold everywhere, and every rule catches what it is there for."""

import ast
import re
import sys
from pathlib import Path

import pytest

from seamline.stack.components import PROGRAMS
from tests.unit import tidy_rules
from tests.unit.tidy_rules import RULES, TEXT_SUFFIXES, File, Rule

FOLDERS = (
    ".ci",
    "bench",
    "dags",
    "deploy",
    "docs",
    "examples",
    "include",
    "jars",
    "plugins",
    "schemas",
    "spark_jobs",
    "tests",
)
PACKAGES = ("include/seamline", "plugins/seamline_airflow", "spark_jobs/seamline_spark")
# Written by machines, read by machines; the last one by a demo of this checkout.
GENERATED = (
    "requirements.txt",
    "requirements-docs.txt",
    "jars/jars.lock",
    "docs/reference/commands.md",
    "docs/reference/errors.md",
    "include/destinations/lake.yaml",
)


def files_of(checkout: Path) -> list[File]:
    found = [path for path in checkout.iterdir() if path.is_file()]
    found += [path for folder in FOLDERS for path in (checkout / folder).rglob("*") if path.is_file()]
    texts = [
        path for path in found if path.suffix in TEXT_SUFFIXES and not path.name.endswith((".pyc", ".json", ".lock"))
    ]
    names = {path: path.relative_to(checkout).as_posix() for path in texts}
    return [
        File(name, path.read_text(encoding="utf-8"))
        for path, name in sorted(names.items())
        if name not in GENERATED and "__pycache__" not in name
    ]


@pytest.fixture(scope="module")
def files(checkout: Path) -> list[File]:
    return files_of(checkout)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_the_rule_holds_everywhere(files: list[File], rule: Rule) -> None:
    found = [f"{file.path}:{said}" for file in files for said in rule(file)]
    assert not found, "\n" + "\n".join(found)


PLANTED = {
    "lengths_of_files": File("include/seamline/x.py", "x = 1\n" * 601),
    "lengths_of_functions": File("include/seamline/x.py", "def f():\n" + "    x = 1\n" * 70),
    "boolean_parameters": File("include/seamline/x.py", "def f(*, is_new: bool | None = None): ...\n"),
    "broad_excepts": File("include/seamline/x.py", "try:\n    f()\nexcept (OSError, Exception):\n    pass\n"),
    "banned_names": File("include/seamline/kafka_utils.py", ""),
    "banned_words": File("docs/x.md", "# A\nWe leverage it.\n"),
    "machine_paths": File("docs/x.md", "# A\nLook into /home/ann/seamline.\n"),
    "sleeps_in_tests": File("tests/unit/test_x.py", "import time\ntime.sleep(1)\n"),
    "names_of_tests": File("tests/unit/test_x.py", "def test_load(): ...\n"),
    "one_title": File("docs/x.md", "# A\n```\n# not one\n```\n# B\n"),
}
PLANTED_TOO = {
    "the root conftest": ("lengths_of_files", File("tests/conftest.py", "x = 1\n" * 61)),
    "a broad except that only sometimes raises again": (
        "broad_excepts",
        File("include/seamline/x.py", "try:\n    f()\nexcept Exception:\n    if late:\n        raise\n"),
    ),
    "a bare except": ("broad_excepts", File("include/seamline/x.py", "try:\n    f()\nexcept:\n    pass\n")),
    "a broad suppress": ("broad_excepts", File("dags/x.py", "with contextlib.suppress(Exception):\n    f()\n")),
    "a class": ("banned_names", File("include/seamline/x.py", "class StreamManager: ...\n")),
    "something unfinished": ("banned_words", File("include/seamline/x.py", "# TODO later\n")),
    "this checkout": ("machine_paths", File("README.md", f"# A\n{Path(tidy_rules.__file__).parents[2]}\n")),
    "a registry": ("machine_paths", File("seamline", "curl https://pypi.org/simple\n")),
    "an async sleep": ("sleeps_in_tests", File("tests/dags/test_x.py", "async def f(): await asyncio.sleep(1)\n")),
    "no title": ("one_title", File("docs/x.md", "words\n")),
}


@pytest.mark.parametrize("name", PLANTED)
def test_each_rule_catches_a_planted_violation(name: str) -> None:
    assert list(getattr(tidy_rules, name)(PLANTED[name]))


@pytest.mark.parametrize("what", PLANTED_TOO)
def test_each_rule_catches_its_other_forms(what: str) -> None:
    name, file = PLANTED_TOO[what]
    assert list(getattr(tidy_rules, name)(file))


def test_an_error_that_goes_on_after_a_clean_up_is_no_violation() -> None:
    planted = File("include/seamline/x.py", "try:\n    f()\nexcept BaseException:\n    close()\n    raise\n")
    assert not list(tidy_rules.broad_excepts(planted))


def test_every_rule_has_a_planted_violation() -> None:
    assert set(PLANTED) == {rule.__name__ for rule in RULES}


def test_every_listed_edge_still_catches_everything(files: list[File]) -> None:
    """An edge that no longer needs to be one leaves the list."""
    elsewhere = [
        (file.path, File(f"elsewhere/{file.path}", file.text)) for file in files if file.path in tidy_rules.EDGES
    ]
    broad = {path for path, file in elsewhere if list(tidy_rules.broad_excepts(file))}
    assert set(tidy_rules.EDGES) == broad


# ---- who may import whom, where import-linter does not look ---------------------------------------------------------


def imported(tree: ast.Module) -> set[str]:
    """Every module that is imported, also inside functions; `from a import b` counts as `a` and `a.b`."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def strangers(tree: ast.Module, allowed: tuple[str, ...]) -> set[str]:
    """Imported modules outside the standard library and `allowed`."""
    found = {name for name in imported(tree) if name.split(".")[0] not in sys.stdlib_module_names}
    return {name for name in found if not any(name == one or name.startswith(f"{one}.") for one in allowed)}


ALLOWED_IMPORTS = {
    "include/seamline/domain/": ("seamline.domain",),
    "include/seamline/values/": ("seamline.domain", "seamline.values", "pyarrow", "numpy"),
    "include/seamline/ports/": ("seamline.domain", "seamline.ports", "seamline.values"),
    "include/seamline/plan/checks.py": ("seamline.domain",),
    "include/seamline/plan/model.py": ("seamline.domain", "seamline.plan.checks"),
    "dags/": ("airflow.sdk", "seamline_airflow.dag_factory", "seamline.spec.load", "seamline.plan.compile"),
}


@pytest.mark.parametrize("place", ALLOWED_IMPORTS)
def test_a_place_imports_only_what_it_may(files: list[File], place: str) -> None:
    # `from seamline.domain import x` also counts as the parents of what it names.
    allowed = ALLOWED_IMPORTS[place]
    there = [file for file in files if file.is_python and file.path.startswith(place)]
    assert there, "a place that has moved would be checked no more"
    assert not {file.path: left for file in there if (left := strangers(file.tree, allowed) - {"seamline"})}


def test_a_planted_import_in_the_domain_is_caught() -> None:
    assert strangers(ast.parse("import pydantic\nfrom seamline.spec import load\n"), ("seamline.domain",))
    assert not strangers(ast.parse("import json\nfrom seamline.domain.log import Transaction\n"), ("seamline.domain",))


# ---- what hints name ------------------------------------------------------------------------------------------------


def test_a_log_that_a_text_names_is_one_that_there_is(files: list[File]) -> None:
    named = {
        (file.path, name)
        for file in files
        if not file.is_test
        for name in re.findall(r"seamline logs ([a-z][\w-]*)", file.text)
    }
    assert len(named) > 2
    assert {one for one in named if one[1] not in PROGRAMS} == set()


# ---- modules that nothing uses --------------------------------------------------------------------------------------

_DOTTED = re.compile(r"\bseamline(?:_airflow|_spark)?(?:\.\w+)+")


HOW_TO = "docs/how-to/"


def module_name(path: str) -> str:
    """`include/seamline/domain/log.py` as `seamline.domain.log`."""
    return ".".join(path.removesuffix(".py").removesuffix("/__init__").split("/")[1:])


# Built for what is not there yet. Whoever uses one takes it out.
AHEAD: set[str] = set()
# Beside Python, what starts a module by its name.
CALLERS = ("docker-compose.yml", "pyproject.toml", "seamline")


def dead_modules(files: list[File]) -> set[str]:
    """Modules of the packages that no other module outside the tests imports or names in a text, and no how-to
    imports. A contract of import-linter that names one does not use it."""
    modules = {module_name(file.path): file for file in files if file.is_python and file.path.startswith(PACKAGES)}
    used: set[str] = set()
    for file in files:
        names_others = file.is_python or file.path in CALLERS or file.path.startswith(HOW_TO)
        if file.is_test or not names_others:
            continue
        named = set(_DOTTED.findall(file.text.partition("[tool.importlinter]")[0]))
        if file.is_python:
            named |= imported(file.tree)
        used |= named - {module_name(file.path)}
    commands = {f"seamline.cli.{found}" for found in _commands(modules)}
    packages = {name for name, file in modules.items() if file.path.endswith("__init__.py")}
    # Alembic runs every file of its folder.
    migrations = {name for name in modules if ".migrations." in name}
    return set(modules) - used - commands - packages - migrations


def _commands(modules: dict[str, File]) -> set[str]:
    main = modules.get("seamline.cli.main")
    return set(re.findall(r'^    "\w+": \("(\w+)"', main.text, re.MULTILINE)) if main else set()


def test_no_module_is_dead(files: list[File]) -> None:
    assert dead_modules(files) == AHEAD


def test_a_planted_dead_module_is_caught() -> None:
    planted = [
        File("include/seamline/a.py", "import seamline.b\n"),
        File("include/seamline/b.py", ""),
        File("tests/unit/test_a.py", "import seamline.a\n"),
        File("pyproject.toml", '[tool.importlinter]\nsource_modules = ["seamline.a"]\n'),
    ]
    assert dead_modules(planted) == {"seamline.a"}
