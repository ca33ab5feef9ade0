"""A file of a transform that is no SQL, or no Python, is reported by `validate`, without Spark."""

import shutil
from pathlib import Path

import pytest

from seamline.cli.main import main
from seamline.plan.compile import compile_plan
from seamline.spec.load import load_declarations
from tests.documented import block, declarations_of
from tests.unit.declared import SYNC, write_declarations


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    return tmp_path


def declare(folder: Path, name: str, text: str) -> None:
    sync = SYNC.replace("  - account\n", f"  - {{name: account, transform: include/transforms/{name}}}\n")
    assert sync != SYNC
    write_declarations(folder, {"syncs/settlement.yaml": sync, f"transforms/{name}": text})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.sql", "SELECT id,\n  owner,\nFROM account WHERE\n", "a.sql:3  this is not SQL of Spark near `WHERE`"),
        ("a.sql", "SELECT (id FROM account", "a.sql:1  this is not SQL of Spark near `FROM`"),
        ("a.sql", "SELECT 'a FROM account", "a.sql:1  this is not SQL of Spark: Error tokenizing"),
        ("a.sql", "DELETE FROM account", "a.sql:1  it holds something else than one query. Write one SELECT"),
        ("a.sql", "SELECT id FROM account; SELECT 1", "it holds something else than one query"),
        (
            "a.sql",
            "SELECT id, values FROM account",
            "near `values`. Correct it; a column that is called as a word of SQL",
        ),
        ("a.py", "def transform(frame):\0\n    return frame\n", "a.py:1  this is not Python: "),
        ("a.py", "def transform(frame):\n  return (\n", "a.py:2  this is not Python: '(' was never closed"),
        ("a.py", "def transforms(frame):\n    return frame\n", "a.py:1  there is no function `transform`"),
    ],
)
def test_what_is_no_query_and_no_function_is_reported_with_file_and_line(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    declare(folder, name, text)
    assert main(["validate"]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.sql",
            "-- masked\nSELECT `id`, sha2(concat('2026:', owner), 256) AS owner FROM account",
        ),
        (
            "a.sql",
            "SELECT id, CASE WHEN c IN ('CH') THEN right(card, 4) END r FROM account WHERE a <=> b;",
        ),
        ("a.sql", "WITH a AS (SELECT id FROM account) SELECT id, rank() OVER (PARTITION BY id ORDER BY id) FROM a"),
        ("a.py", "from mine import transform\n"),
        ("a.py", "def transform(frame):\n    return frame\n"),
    ],
)
def test_queries_and_functions_pass(folder: Path, name: str, text: str) -> None:
    declare(folder, name, text)
    assert main(["validate"]) == 0


def test_the_example_of_the_page_plans_with_the_declarations_of_the_demo(tmp_path: Path, checkout: Path) -> None:
    page, name = "docs/how-to/transform-a-table.md", "transforms/account_masked.sql"
    shutil.copytree(checkout / "include", tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("seamline"))
    shown = declarations_of(checkout, page)
    for place in ("destinations/masked.yaml", "syncs/masked.yaml"):
        (tmp_path / place).write_text(shown[place], encoding="utf-8")
    query = block(checkout, page, f"-- include/{name}")
    (tmp_path / name).write_text(query, encoding="utf-8")
    declarations = load_declarations(tmp_path)
    assert compile_plan(declarations, "masked").transforms_at("masked") == {"account": f"include/{name}"}
    assert [one.name for one in compile_plan(declarations, "settlement").destinations] == ["warehouse", "archive"]
