"""The page on topics can be followed on the demo: its files go together, and name every column that the topics have."""

import shutil
from pathlib import Path

import pytest
import sqlglot
import yaml

from seamline.demo.bank import TABLES
from seamline.plan.compile import compile_plan
from seamline.sources.kafka.layout import layout_of
from seamline.spec.load import Declarations, load_declarations
from tests.documented import declarations_of

PAGE = "docs/how-to/read-topics.md"
# What the stack of the demo has.
KNOWN = {"kafka": "kafka", **dict.fromkeys(("warehouse", "warehouse_writer"), "postgres")}
OF_DEMO = dict.fromkeys(("core_bank", "core_bank_capture", "core_bank_marker", "archive", "archive_writer"), "mysql")


@pytest.fixture
def declared(tmp_path: Path, checkout: Path) -> Declarations:
    """Beside those of the demo."""
    shutil.copytree(checkout / "include", tmp_path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("seamline"))
    shown = declarations_of(checkout, PAGE)
    assert len(shown) == 5
    for name, text in shown.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return load_declarations(tmp_path, connections={**KNOWN, **OF_DEMO})


def test_the_files_of_the_page_plan_two_syncs_of_the_demo(declared: Declarations) -> None:
    first, second = (compile_plan(declared, name) for name in ("feeding", "office"))
    (feed,) = first.destinations
    read = layout_of(second.source)
    assert [one.topic for one in read.tables] == [f"{feed.namespace}.{table.name}" for table in first.tables]
    assert {one.format for one in read.tables} == {dict(feed.options)["format"]}
    assert [table.name for table in second.tables] == [table.name for table in first.tables]
    others = (*second.destinations, *compile_plan(declared, "settlement").destinations)
    assert len({(one.connection, one.namespace) for one in others}) == 3, "a table has one writer"


def test_the_files_of_the_page_name_every_column_of_the_bank(checkout: Path) -> None:
    source = yaml.safe_load(declarations_of(checkout, PAGE)["sources/feed_topics.yaml"])
    for table in source["tables"]:
        created = sqlglot.parse_one(TABLES[table["table"]], read="mysql")
        columns = [one.name for one in created.find_all(sqlglot.exp.ColumnDef)]
        kept = [one["name"] for one in table["columns"]]
        assert sorted([*kept, *table.get("ignored", [])]) == sorted(columns), table["table"]
