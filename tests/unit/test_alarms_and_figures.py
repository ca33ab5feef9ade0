"""The tables that the pages of alarms and metrics are made from: all that the code raises and reports is in them."""

import ast
from collections.abc import Iterator
from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path

import pytest

from seamline.cli import alarms_page, figures, status_document
from seamline.cli.seen import Seen, Streams
from seamline.domain.alarms import MEANINGS, AlarmKind
from seamline.platform.store import Alarm
from seamline.ports import StreamReport
from seamline_airflow.page.alarm_words import TITLES
from tests.unit.test_watch import SYNC

RAISES = frozenset({"RaiseAlarm", "raise_alarm", "_raise_alarm", "Trouble", "NightTrouble"})
FOLDERS = ("include", "plugins", "spark_jobs")


def kinds_of_their_own(module: str) -> Iterator[str]:
    """Kinds of alarms that a module raises by a text, and so past the table."""
    tree = ast.parse(module)
    texts = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name(node.func) in RAISES:
            for argument in node.args:
                if isinstance(argument, ast.Name) and argument.id in texts:
                    yield texts[argument.id]
            if node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                yield ast.unparse(node.args[0])


def _name(called: ast.expr) -> str:
    return called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")


def test_every_kind_of_alarm_has_a_meaning_and_a_line_of_the_page() -> None:
    assert set(MEANINGS) == set(AlarmKind)
    page = alarms_page.page()
    assert [kind for kind in AlarmKind if f"\n| `{kind}` | " not in page] == []


def test_the_page_has_words_for_every_kind_of_alarm() -> None:
    assert set(TITLES) == set(AlarmKind)


def test_no_module_raises_an_alarm_that_the_table_does_not_have_and_each_of_the_table_is_raised(checkout: Path) -> None:
    modules = {file: file.read_text(encoding="utf-8") for one in FOLDERS for file in (checkout / one).rglob("*.py")}
    assert {file.name: found for file, text in modules.items() if (found := list(kinds_of_their_own(text)))} == {}
    others = "\n".join(text for file, text in modules.items() if file.name not in ("alarms.py", "figures.py"))
    assert [kind for kind in AlarmKind if f"AlarmKind.{kind.name}" not in others] == []


@pytest.mark.parametrize(
    "planted",
    [
        'found = [RaiseAlarm("planted", source, "x")]',
        'PLANTED = "planted"\ndef f(store):\n    store.raise_alarm(PLANTED, "x", "y")',
        'PLANTED = "planted"\ndef f(self):\n    return self._raise_alarm(stream, entry, PLANTED, "x")',
    ],
)
def test_a_planted_alarm_is_found(planted: str) -> None:
    assert list(kinds_of_their_own(planted)) in (["'planted'"], ["planted"])


def paths(value: object, at: str = "") -> Iterator[str]:
    """The places of a document, down to what the table takes as a whole."""
    if at in figures.NAMES or any(at == place for one in figures.FIGURES for place in one.at):
        yield at
    elif isinstance(value, dict):
        for key, one in value.items():
            yield from paths(one, f"{at}.{key}" if at else key)
    elif isinstance(value, list | tuple):
        yield from {found for one in value or [None] for found in paths(one, f"{at}[]")}
    else:
        yield at


def document() -> dict[str, object]:
    alarm = Alarm(AlarmKind.LOG_SIZE, "core_bank", "x", datetime(2026, 11, 29, tzinfo=UTC))
    seen = Seen(Streams((), {}, {}, (alarm,), ()), (SYNC,))
    return {"processes": "6 programs run", **status_document.whole(seen)}


def test_the_table_of_figures_has_each_place_of_the_document_and_no_other() -> None:
    known = {place for one in figures.FIGURES for place in one.at} | figures.NAMES
    assert set(paths(document())) == known


def test_a_planted_figure_of_the_document_is_found() -> None:
    planted = {**document(), "alarms": [], "backlog_bytes": 7}
    assert "backlog_bytes" in set(paths(planted)) - figures.NAMES


def test_every_field_of_a_streams_report_is_a_figure_or_a_name() -> None:
    known = set(figures.OF_A_REPORT) | figures.OF_A_REPORT_NAMES
    assert {one.name for one in fields(StreamReport)} == known
    assert not set(figures.OF_A_REPORT) & figures.OF_A_REPORT_NAMES


def test_every_figure_says_what_to_do_about_it() -> None:
    assert [one.means for one in figures.FIGURES if bool(one.alarms) == bool(one.cure)] == []
    assert all(one.unit and one.at for one in figures.FIGURES)
