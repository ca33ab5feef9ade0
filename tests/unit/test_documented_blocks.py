"""Every block of code in the documents is run by a test, or taken by its parser with a reason that is written down."""

import ast
import json
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest
import sqlglot
from sqlglot.errors import ErrorLevel, SqlglotError

from seamline import settings
from seamline.stack import credentials
from seamline.stack.layout import Layout
from tests.documented import LANGUAGES, Block, blocks_of, looking_blocks
from tests.documented_blocks import E2E, PARSED, PRINTED, RUN
from tests.unit.test_chinese_documents import ENGLISH

TABLES = (RUN, PRINTED, PARSED)
_COMMAND = re.compile(
    r"^\s*(?:\$ |\./seamline |kafka-\w+|(?:cd|curl|docker|export|git|openssl|pip|spark-submit) )", re.MULTILINE
)
_ADDED = re.compile(r"\./seamline connect add (\w+) (?!.*--replace)")
_FILE = re.compile(r"tests/[\w/]+\.py")


def english_of(page: str) -> str:
    folder, _, name = page.rpartition("/")
    return ENGLISH.get(name, page) if folder == "docs/zh" else page


def entries(one: Block) -> list[tuple[str, str]]:
    """Those of the tables that are about a block: what is said there, and how it says that the block begins."""
    page = english_of(one.page)
    return [
        (said, begins)
        for table in TABLES
        for begins, said in table.get(page, {}).items()
        if one.text.startswith(begins)
    ]


def faults(blocks: Iterable[Block], looks: frozenset[str]) -> Iterator[str]:
    for one in blocks:
        where = f"{one.page}: {one.first!r}"
        if one.language not in LANGUAGES:
            if _COMMAND.search(one.text):
                yield f"{where} is a command without a language: make it `sh`, or `console` where the answer is shown"
            continue
        found = entries(one)
        if one.text in looks:
            yield from (f"{where} only looks and needs no entry" for _ in found)
        elif len(found) != 1:
            yield f"{where} stands {len(found)} times in tests/documented_blocks.py, and belongs there once"


def looked_at(checkout: Path) -> frozenset[str]:
    pages = [checkout / "README.md", *(checkout / "docs").rglob("*.md")]
    return frozenset(block for page in pages for block in looking_blocks(page))


def test_every_block_is_run_or_has_a_reason(checkout: Path) -> None:
    found = list(faults(blocks_of(checkout), looked_at(checkout)))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("planted", "said"),
    [
        (Block("docs/how-to/new.md", "sh", "./seamline stream restart settlement\n"), "stands 0 times"),
        (Block("docs/how-to/new.md", "sql", "SELECT 1\n"), "stands 0 times"),
        (Block("docs/how-to/new.md", "", "./seamline down\n"), "without a language"),
        (Block("docs/how-to/new.md", "", "$ ./seamline down\n"), "without a language"),
        (Block("docs/how-to/new.md", "", "openssl genpkey -algorithm ed25519\n"), "without a language"),
        (Block("docs/how-to/new.md", "", "# as root\n./seamline down\n"), "without a language"),
        (Block("docs/how-to/new.md", "", "kafka-acls --add\n"), "without a language"),
        (Block("docs/how-to/new.md", "text", "the answer is shown\n"), ""),
        (Block("docs/how-to/repair.md", "sh", "./seamline repair list settlement\n"), "stands 0 times"),
        (Block("docs/how-to/new.md", "sh", "./seamline status\n"), ""),
        (Block("docs/how-to/new.md", "yaml", "sync: settlement\n"), ""),
    ],
)
def test_a_planted_block_without_a_test_is_found(planted: Block, said: str) -> None:
    found = "\n".join(faults([planted], frozenset({"./seamline status\n"})))
    assert said in found and bool(said) == bool(found)


def taken_names(blocks: Iterable[Block], taken: Mapping[str, object]) -> list[str]:
    return [f"{one.page}: {name}" for one in blocks for name in _ADDED.findall(one.text) if name in taken]


def test_no_page_adds_a_connection_that_the_stack_of_a_clean_clone_has(checkout: Path, tmp_path: Path) -> None:
    """`connect add` refuses a name that is there; `up` writes those of its own servers."""
    known = settings.load({"SEAMLINE_DATA": str(tmp_path)})
    layout = Layout(known)
    credentials.write_files(layout, credentials.load_or_make(layout))
    taken = json.loads(known.connections.read_text(encoding="utf-8"))
    assert taken_names(blocks_of(checkout), taken) == []
    planted = Block("docs/how-to/new.md", "sh", "./seamline connect add warehouse postgres://me@dwh.example/dwh\n")
    assert taken_names([planted], taken) == ["docs/how-to/new.md: warehouse"]


def test_every_entry_is_about_a_block_that_is_there(checkout: Path) -> None:
    blocks = list(blocks_of(checkout))
    gone = [
        f"{page}: {begins!r}"
        for table in TABLES
        for page, of_page in table.items()
        for begins in of_page
        if not any(one.page == page and one.text.startswith(begins) for one in blocks)
    ]
    assert not gone


def test_the_test_that_runs_a_block_takes_it_from_its_page(checkout: Path) -> None:
    """A test that has a copy of its own would go on with that after the page has changed."""
    for table in (RUN, PRINTED):
        for page, of_page in table.items():
            for begins, test in of_page.items():
                folder = (checkout / test).parent
                files = [checkout / test, *(folder.glob("walk*.py") if test == E2E else ())]
                text = "\n".join(file.read_text(encoding="utf-8") for file in files)
                assert page.rpartition("/")[2] in text, (page, test)
                assert test != E2E or repr(begins.rstrip())[1:-1] in text or begins.rstrip() in text, (page, begins)


def test_every_file_that_a_reason_names_is_there(checkout: Path) -> None:
    named = {file for of_page in PARSED.values() for said in of_page.values() for file in _FILE.findall(said)}
    assert [file for file in sorted(named) if not (checkout / file).is_file()] == []


def refused(language: str, text: str) -> str:
    """What the parser of a language says against it; "" where it takes it."""
    match language:
        case "sh" | "console":
            lines = [line.removeprefix("$ ") for line in text.splitlines() if language == "sh" or line.startswith("$ ")]
            given = {"input": "\n".join(lines), "capture_output": True, "text": True}
            return subprocess.run(["bash", "-n"], timeout=30, check=False, **given).stderr
        case "python" | "py":
            try:
                ast.parse(text)
            except SyntaxError as wrong:
                return str(wrong)
        case "sql":
            try:
                sqlglot.parse(text, read="spark" if "`" in text else "postgres", error_level=ErrorLevel.RAISE)
            except SqlglotError as wrong:
                return str(wrong)
    return ""


def parsed(checkout: Path, table: Mapping[str, Mapping[str, str]]) -> Iterator[Block]:
    for one in blocks_of(checkout):
        if any(one.text.startswith(begins) for begins in table.get(one.page, {})):
            yield one


def test_the_parser_of_its_language_takes_each_block_that_is_not_run(checkout: Path) -> None:
    found = {one.first: said for one in parsed(checkout, PARSED) if (said := refused(one.language, one.text))}
    assert not found


@pytest.mark.parametrize(
    ("language", "text"),
    [("sh", "for x in a; do\n"), ("console", "$ echo 'a\nanswer'\n"), ("python", "f(\n"), ("sql", "SELECT (1 FROM\n")],
)
def test_a_planted_mistake_of_a_language_is_found(language: str, text: str) -> None:
    assert refused(language, text)
