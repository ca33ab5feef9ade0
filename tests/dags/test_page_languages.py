"""The page in two languages: every text that is seen is wrapped, known in Chinese, and used."""

import html
import json
import re
from dataclasses import replace
from datetime import date
from enum import StrEnum
from pathlib import Path
from urllib.parse import quote

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

import seamline
from seamline.domain.audit import FROM_AIRFLOW, FROM_COMMAND_LINE, FROM_PAGE, Kind
from seamline.domain.break_work import Doing, WorkState
from seamline.domain.cut_state import Headline
from seamline.domain.declared_change import Step
from seamline.domain.phrase import joined, phrase
from seamline.domain.repair import RepairState, RootCause, RowAction, RowState
from seamline.domain.runs import NightlyMode, SyncState
from seamline.domain.sign_off import SignAct
from seamline.domain.tolerance import ToleranceState
from seamline.domain.verdict import BreakType, Verdict
from seamline.sync.missing import Awaits
from seamline.sync.stream_state import Word
from seamline_airflow.page import over_dates
from seamline_airflow.page.app import app
from seamline_airflow.page.language import COOKIE, Language, catalogue
from seamline_airflow.page.rendering import PAGES, page_of
from tests.dags import results
from tests.dags.page_texts import Found, of_python, of_template, placeholders
from tests.dags.test_page import HOSTILE
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

PAGE = Path(over_dates.__file__).parent
TEMPLATES = sorted((PAGE / "templates").glob("*.html"))
PYTHON = [*PAGE.glob("*.py"), *Path(seamline.__file__).parent.rglob("*.py")]
# Words of enumerations that templates show by `term`.
SHOWN: tuple[type[StrEnum], ...] = (
    Awaits, BreakType, Headline, NightlyMode, RepairState, RootCause, RowAction, RowState, SignAct, Step, SyncState,
    ToleranceState, Verdict, Word, WorkState,
)  # fmt: skip
# Acts about breaks, as the history of a break names them.
ACTS = (
    Kind.ASSIGNED, Kind.ATTACHED, Kind.HANDED_BACK, Kind.COMMENTED, Kind.EXPLAINED, Kind.TOLERATED, Kind.BREAK_CLOSED,
    Kind.BREAK_REOPENED, Kind.REPAIR_PLANNED, Kind.REPAIR_APPROVED, Kind.REPAIR_APPLIED,
)  # fmt: skip
WEEKDAYS = tuple(f"{date(2026, 11, day):%a}" for day in range(16, 23))
# Of runs of Airflow, as a backfill shows them.
DAG_STATES = ("running", "success", "failed")
TERMS = {one.value for of in SHOWN for one in of} | {
    *(one.value for one in ACTS), *WEEKDAYS, FROM_AIRFLOW, FROM_COMMAND_LINE, FROM_PAGE, "ALARM", *DAG_STATES,
}  # fmt: skip
# Texts in expressions of templates that nobody sees as they are: codes, formats, sizes, and names of routes.
CODES = {"%m-%d", "%.1f", "v%s", "cut", "big", "approve/required_actions", "INCONCL.", "NOT PUBL.", "CHECKS", "NOT RUN"}
ROUTES = {route.path.removeprefix("/") for route in app.routes if isinstance(route, APIRoute)}


def of_page(source: str) -> Found:
    return of_template(source, PAGES[Language.ENGLISH], CODES | ROUTES | {*Doing, Verdict.NOT_RUN})


def used() -> set[str]:
    """Every text of the page that a catalogue has to hold."""
    templates = (of_page(file.read_text(encoding="utf-8")).wrapped for file in TEMPLATES)
    return set[str]().union(TERMS, *templates, *(of_python(file).wrapped for file in PYTHON)) - _WITHOUT_WORDS


# Nothing but values.
_WITHOUT_WORDS = {"%(table)s.%(column)s"}


def mistakes(texts: set[str], known: dict[str, str]) -> list[str]:
    missing = [f"not in the catalogue: {text}" for text in sorted(texts - set(known))]
    unused = [f"nobody uses: {text}" for text in sorted(set(known) - texts)]
    others = [
        f"other values or tags: {text}" for text, said in known.items() if placeholders(text) != placeholders(said)
    ]
    return missing + unused + others


def test_no_template_shows_a_text_that_is_not_wrapped() -> None:
    assert {
        file.name: found for file in TEMPLATES if (found := of_page(file.read_text(encoding="utf-8")).unwrapped)
    } == {}
    assert len(TEMPLATES) > 10


def test_no_phrase_has_a_pattern_that_a_translator_could_not_find() -> None:
    assert [place for file in PYTHON if file.name != "phrase.py" for place in of_python(file).unwrapped] == []


def test_the_chinese_catalogue_holds_every_text_and_no_other_one() -> None:
    assert mistakes(used(), dict(catalogue(Language.CHINESE))) == []


@pytest.mark.parametrize(
    ("source", "unwrapped"),
    [
        ("<p>one sync</p>", ["one sync"]),
        ("<p>{% trans %}one sync{% endtrans %} and more</p>", ["… and more"]),
        ('<td title="of this date">{{ _("x") }}</td>', ["of this date"]),
        ('<input type="submit" value="send">', ["send"]),
        ('<p>{{ ", partial" if one.partial }}</p>', [", partial"]),
        ('<p>{{ {"found": "as found"}[order.value] }}</p>', ["as found"]),
        ('<p>{{ {"comment": _("x")}.get(doing, "comment on") }}</p>', ["comment on"]),
        ('<p>{{ one.days ~ " days" }}</p>', [" days"]),
        ('<p>{{ act("sign", one.number, "approve it") }}</p>', ["approve it"]),
        ("<p>{{ one.state.value }}</p>", [".value without `term`"]),
        ('{% for word in ("gone", "new") %}{{ word }}{% endfor %}', ["gone", "new"]),
        ('{% set word = "gone" %}', ["gone"]),
        ("<p>{% trans days=one.days ~ ' days' %}since {{ days }}{% endtrans %}</p>", [" days"]),
        ('<p class="{{ "well" if one else "differs" }}"><code>./seamline up</code> – XLSX 7</p>', []),
        ('<a href="page?sync={{ sync }}&amp;scope={{ one.scope.value }}">{{ one }}</a>', []),
        ("<p>{{ one.state.value | term }} {{ one if one.kind == 'cut' }}</p>", []),
    ],
)
def test_a_text_that_is_seen_and_not_wrapped_is_found(source: str, unwrapped: list[str]) -> None:
    assert of_page(source).unwrapped == unwrapped


def test_wrapped_texts_of_templates_and_python_are_found(tmp_path: Path) -> None:
    source = """{{ _("a") }}{% trans n=1 %}b {{ n }}{% pluralize %}c {{ n }}{% endtrans %}{{ "MATCH" | term }}"""
    assert of_page(source).wrapped == {"a", "b %(n)s", "c %(n)s", "MATCH"}
    file = tmp_path / "made.py"
    file.write_text('phrase("d %(e)s", e=1)\nphrase(f"{g}")\nphrase("in" " two")\n', encoding="utf-8")
    assert (of_python(file).wrapped, of_python(file).unwrapped) == ({"d %(e)s", "in two"}, ["made.py:2"])


@pytest.mark.parametrize(
    ("known", "mistake"),
    [
        ({}, "not in the catalogue: <b>%(n)s</b> rows"),
        ({"<b>%(n)s</b> rows": "<b>%(n)s</b> 行", "old": "旧"}, "nobody uses: old"),
        ({"<b>%(n)s</b> rows": "<b>%(m)s</b> 行"}, "other values or tags: <b>%(n)s</b> rows"),
        ({"<b>%(n)s</b> rows": "%(n)s 行"}, "other values or tags: <b>%(n)s</b> rows"),
        ({"<b>%(n)s</b> rows": "<b>%(n)s</b> 100% 行"}, "other values or tags: <b>%(n)s</b> rows"),
    ],
)
def test_a_catalogue_that_lacks_a_text_has_one_too_many_or_changes_its_values_is_found(
    known: dict[str, str], mistake: str
) -> None:
    assert mistakes({"<b>%(n)s</b> rows"}, known) == [mistake]


# ---- who gets which language -----------------------------------------------------------------------------------------


def spoken(client: TestClient, **headers: str) -> str:
    found = re.search(r'<html lang="([^"]*)">', client.get("/page", headers=headers).text)
    return found.group(1) if found else ""


@pytest.mark.parametrize(
    ("asked", "language"),
    [
        ("", "en"),
        ("zh-CN,zh;q=0.9,en;q=0.8", "zh-CN"),
        ("zh-TW", "zh-CN"),
        ("ZH", "zh-CN"),
        ("en-GB,zh;q=0.9", "en"),
        ("en;q=0.5, zh;q=0.9", "zh-CN"),
        ("fr,de;q=0.9", "en"),
        ("fr, zh;q=0.1", "zh-CN"),
        ("zh;q=0", "en"),
        ("zh;q=nan", "en"),
        ("zh;q=<b>,;;q=,q", "en"),
    ],
)
def test_the_page_speaks_the_language_that_the_browser_asks_for_first(
    signed_in: TestClient, platform: results.Platform, asked: str, language: str
) -> None:
    assert spoken(signed_in, **{"Accept-Language": asked}) == language


def test_what_a_person_has_chosen_is_kept_in_a_cookie_and_comes_before_what_the_browser_asks_for(
    signed_in: TestClient, platform: results.Platform
) -> None:
    text = signed_in.get("/page?sync=settlement&before=2027-01-01").text
    link = re.search(r'<a href="(language[?][^"]+)" lang="zh-CN"', text)
    assert link and "English · " not in text and "/ <a" in text
    answer = signed_in.get(f"/{html.unescape(link.group(1))}", follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "page?sync=settlement&before=2027-01-01")
    kept = answer.headers["set-cookie"].lower()
    assert "samesite=lax" in kept and "httponly" in kept and "path=/" in kept
    assert spoken(signed_in, **{"Accept-Language": "en"}) == "zh-CN"
    signed_in.get("/language?to=en")
    assert spoken(signed_in, **{"Accept-Language": "zh"}) == "en"


@pytest.mark.parametrize("value", ["zh", "fr", HOSTILE, "../../x", "zh-CN%00", "x" * 5000, '"', ""])
def test_a_cookie_that_names_no_language_is_none(signed_in: TestClient, platform: results.Platform, value: str) -> None:
    assert spoken(signed_in, Cookie=f"{COOKIE}={quote(value, safe='/.%<>')}") == "en"
    assert spoken(signed_in, **{"Cookie": f"{COOKIE}={quote(value)}", "Accept-Language": "zh"}) == "zh-CN"


@pytest.mark.parametrize(
    "here",
    [
        "//evil.example/page",
        "https://evil.example",
        "/page",
        "page\r\nSet-Cookie: a=b",
        "javascript:alert(1)",
        "..",
        "",
    ],
)
def test_a_choice_of_a_language_leads_nowhere_else(
    signed_in: TestClient, platform: results.Platform, here: str
) -> None:
    answer = signed_in.get("/language", params={"to": "zh-CN", "here": here}, follow_redirects=False)
    assert (answer.status_code, "set-cookie" in answer.headers) == (422, False)
    assert signed_in.get("/language?to=fr", follow_redirects=False).status_code == 422


# ---- what is said ----------------------------------------------------------------------------------------------------


def seen(page: str) -> str:
    """The text of a page without its codes, on one line."""
    plain = re.sub(r"<code>.*?</code>|<style.*?</style>|<[^>]+>", " ", page, flags=re.DOTALL)
    return " ".join(html.unescape(plain).split())


CHINESE = {"Accept-Language": "zh-CN"}
DATE = f"/page?sync=settlement&business_date={results.DATE}"


def test_overview_sync_and_date_speak_chinese_with_the_code_of_each_verdict_beside_it(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.BREAK), results.table("ledger_entry"))]
    for path in ("/page", "/page?sync=settlement", DATE):
        assert "不一致 <small>BREAK</small>" in signed_in.get(path, headers=CHINESE).text, path
    said = seen(signed_in.get(DATE, headers=CHINESE).text)
    for text in ("控制总额", "源库行数", "已发布为版本 1", "无需裁定", "校验通过 (9)", "值不一致 ，表 account"):
        assert text in said, text
    english = set(re.findall(r"[A-Za-z]{3,}", said))
    assert not english & {"breaks", "verdict", "compared", "published", "version", "checks", "difference", "rows"}
    assert "rows in the source" in signed_in.get(DATE).text


def test_files_and_evidence_stay_english_whoever_asks(signed_in: TestClient, platform: results.Platform) -> None:
    platform.found = [results.reconciliation(results.table("account", Verdict.NOT_RUN, reason="no history"))]
    assert "no history" in signed_in.get(DATE, headers=CHINESE).text
    for path in (f"/export.json?sync=settlement&business_date={results.DATE}", "/export.csv?sync=settlement"):
        assert signed_in.get(path, headers=CHINESE).content == signed_in.get(path).content, path


def test_values_in_translated_texts_act_as_little_as_others(signed_in: TestClient, platform: results.Platform) -> None:
    hostile = f"{HOSTILE}\u202e%(who)s"
    platform.found = [results.reconciliation(replace(results.table("account", Verdict.BREAK), table=hostile))]
    for headers in ({}, CHINESE):
        page = signed_in.get(DATE, headers=headers).text
        assert "<script" not in page and "\u202e" not in page
        assert page.count("&lt;script&gt;") > 2 and "%(who)s" in page
    for pages in PAGES.values():
        made = pages.from_string(
            "{% trans a=value %}in {{ a }}{% endtrans %}|{{ phrase }}|{{ _('in %(destination)s', destination=value) }}"
        )
        text = made.render(
            value="<b>\u202e", phrase=joined(" ", [phrase("in %(destination)s", destination="<i>\u202e")])
        )
        assert "<b>" not in text and "<i>" not in text and "\u202e" not in text
        assert text.count("&lt;b&gt;") == 2 and text.count("&lt;i&gt;") == 1


def test_a_phrase_is_its_english_text_and_is_said_in_chinese_however_deep_it_stands() -> None:
    length = phrase("%(hours)s h %(minutes)s min", hours=2, minutes=5)
    late = phrase("late for %(length)s", length=length)
    assert (late, f"{late}.", json.dumps(late)) == ("late for 2 h 5 min", "late for 2 h 5 min.", '"late for 2 h 5 min"')
    several = joined("; ", [late, "100%", phrase("restated")])
    assert several == "late for 2 h 5 min; 100%; restated"
    said = PAGES[Language.CHINESE].from_string("{{ several }}").render(several=several)
    assert said == "逾期 2 小时 5 分钟; 100%; 已重述"


def test_a_count_takes_the_form_that_english_has_for_it_and_the_one_form_of_chinese() -> None:
    source = "{% trans n=n, number=n %}{{ number }} break{% pluralize n %}{{ number }} breaks{% endtrans %}"
    said = {language: [pages.from_string(source).render(n=n) for n in (0, 1, 2)] for language, pages in PAGES.items()}
    assert said[Language.ENGLISH] == ["0 breaks", "1 break", "2 breaks"]
    assert said[Language.CHINESE] == ["0 条差异", "1 条差异", "2 条差异"]


def test_a_picture_has_its_title_in_the_language_of_the_page(signed_in: TestClient, platform: results.Platform) -> None:
    platform.lags_of = {results.STREAM: (*[0.5] * 94, None, None)}
    titles = re.findall(r"<title>([^<]*)</title>", signed_in.get("/page", headers=CHINESE).text)
    assert titles[1:] == [
        f"{results.STREAM} 最近 24 小时每 15 分钟的最大延迟：最高 0.5 s；96 个 15 分钟时段中有 2 个无上报"
    ]


def test_trouble_is_said_in_the_language_of_who_meets_it() -> None:
    assert "目前无法读取报告" in page_of("trouble.html", language=Language.CHINESE, message="away")
