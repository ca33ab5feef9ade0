"""The morning overview: every sync by its dates, what waits for a person, what is late; and how its colours read."""

import html
import re
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from itertools import product
from typing import Any

import pytest
from fastapi.testclient import TestClient

from seamline.domain.break_work import Work, WorkState
from seamline.domain.cut_state import Headline
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.declared import StreamMark
from seamline.domain.errors import ConfigError, InvariantViolated
from seamline.domain.ledger import StreamId
from seamline.domain.runs import FAILURE, RunKind, RunState, Scope
from seamline.domain.sign_off import SignOff
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.plan.model import NightlyPlan
from seamline.platform.store import Alarm
from seamline.platform.work import Waiting
from seamline.sync.repetition import NEEDS_A_PERSON
from seamline_airflow import parts
from seamline_airflow.page import access, acting, overview, reports
from seamline_airflow.page.language import Language
from seamline_airflow.page.rendering import PAGES, page_of, text_of
from seamline_airflow.page.sign_pages import TOGETHER_MAX
from tests.dags import results
from tests.dags.page_texts import breakable, flowing
from tests.dags.test_page import APPROVED, NEGATIVE
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

# Noon in Shanghai, on the day after the date of the tests' cut.
NOON = datetime(2026, 11, 20, 4, tzinfo=UTC)


def of_sync(overview: str) -> str:
    """What stands there of the sync as a whole, beside its dates."""
    return overview.partition('<th scope="row">')[2].partition("</th>")[0]


def name_of(day: date) -> str:
    return f"settlement/nightly/{day}/manual__1"


# The stored row of a second sync that cannot be read, by what finds it and what that raises.
UNREADABLE = {
    "a plan": ("latest_run", ConfigError("the stored plan cannot be read: KeyError: 'source'")),
    "a verdict": ("cut_states", ValueError("'FINE' is not a valid Verdict")),
    "a live verdict": ("live_reconciliations", KeyError("gtid")),
    "a signature": ("kept", InvariantViolated("no verdict FINE")),
    "a report": ("", None),
}


@pytest.mark.parametrize("row", UNREADABLE)
def test_a_stored_row_that_cannot_be_read_takes_its_sync_from_the_overview_and_no_other(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch, row: str
) -> None:
    name, error = UNREADABLE[row]
    monkeypatch.setattr(access, "may_see", lambda _user, _sync: True)
    monkeypatch.setattr(reports, "syncs", lambda: ["payroll", "settlement"])
    if error is None:
        platform.unreadable_reports = {StreamId("payroll", "warehouse"): "TypeError: lag_s"}
    else:
        place: Any = results.Unsigned if name == "kept" else results.Platform
        answer = getattr(place, name)

        def asked(self: Any, sync: Any, *arguments: Any, **named: Any) -> Any:
            if sync == "payroll" or "payroll" in sync:
                raise error
            return answer(self, sync, *arguments, **named)

        monkeypatch.setattr(place, name, asked)
    text = html.unescape(signed_in.get("/page").text)
    why = str(error.args[0]) if error else "TypeError: lag_s"
    (mine,) = re.findall(r'<tr><th scope="row"><a href="page[?]sync=payroll">.*?</tr>', text, re.DOTALL)
    assert "UNREADABLE" in mine and why in mine and "MATCH" not in mine
    (other,) = re.findall(r'<tr><th scope="row"><a href="page[?]sync=settlement">.*?</tr>', text, re.DOTALL)
    assert "</span> MATCH" in other
    alert = text.partition('<section role="alert">')[2].partition("</section>")[0]
    assert "payroll" in alert and "settlement" not in alert
    over = signed_in.get("/api/v1/overview").json()
    assert [one["sync"] for one in over["rows"]] == ["settlement"]
    assert [one["sync"] for one in over["unreadable"]] == ["payroll"]
    syncs = signed_in.get("/api/v1/syncs").json()
    assert [(one["sync"], one["verdict"]) for one in syncs] == [("settlement", "MATCH"), ("payroll", "UNREADABLE")]
    if error is not None and name != "kept":
        alone = signed_in.get("/page?sync=payroll")
        assert alone.status_code == 503 and why in html.unescape(alone.text)


def of_days(platform: results.Platform, *days: date) -> None:
    """A clean and published cut of each."""
    platform.runs = {name_of(day): replace(results.published(), run_id=name_of(day), business_date=day) for day in days}
    platform.found = [replace(results.clean(), run_id=name_of(day), business_date=day) for day in days]


def test_every_date_is_a_cell_that_leads_to_its_report_and_from_there_to_every_value(
    signed_in: TestClient, platform: results.Platform
) -> None:
    days = [results.DATE - timedelta(days=number) for number in (3, 1, 0)]
    of_days(platform, *days)
    platform.found[1] = results.reconciliation(results.table("account", Verdict.BREAK), run_id=name_of(days[1]))
    text = signed_in.get("/page").text
    assert re.findall(r'<time datetime="([^"]+)">', text) == ["2026-11-19", "2026-11-18", "2026-11-16"]
    cells = re.findall(r'<td><a href="(page[?]sync=settlement&amp;business_date=[^"]+)".*?</td>', text, re.DOTALL)
    assert len(cells) == 3
    assert text.index("✗</span> BREAK") < text.index("1 break</small>")
    report = signed_in.get(f"/{html.unescape(cells[1])}").text
    assert "1.000<mark>0</mark>" in report and "1.000<mark>1</mark>" in report


def test_of_hundreds_of_dates_that_nobody_has_signed_the_oldest_are_shown_and_the_verdicts_stand_below_them(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits(number: int, verdict: Verdict) -> SignOff:
        day, at = results.DATE - timedelta(days=number), results.AT
        return SignOff("settlement", "warehouse", day, 1, 1, f"r{number}", verdict, False, "0" * 64, "scheduler", at)

    of_days(platform, results.DATE)
    wait = [waits(number, Verdict.MATCH if number > 12 else Verdict.BREAK) for number in range(613)]
    monkeypatch.setattr(results.Unsigned, "kept", lambda *_, **__: tuple(wait))
    monkeypatch.setattr(acting, "may_sign", lambda *_: True)
    text = signed_in.get("/page").text
    # As many boxes as one form may send.
    assert text.count('name="take"') == 100 < TOGETHER_MAX
    assert "The oldest 100 of 600 are shown" in text
    shown, _, folded = text.partition("<details><summary>3 more that wait for a signature</summary>")
    assert (shown.count("waits for a signature"), folded.count("waits for a signature")) == (10, 3)
    # A break of the last date must not be what is folded.
    differing = re.findall(r'<li><strong class="differs">.*?business_date=([-0-9]+)', shown)
    assert differing == [str(results.DATE - timedelta(days=number)) for number in range(10)]


def test_dates_page_back_and_a_date_without_a_cut_is_a_cell_without_a_verdict(
    signed_in: TestClient, platform: results.Platform
) -> None:
    days = [results.DATE - timedelta(days=number) for number in range(overview.DATES + 2)]
    of_days(platform, *reversed(days))
    text = signed_in.get("/page").text
    assert re.findall(r'<time datetime="([^"]+)">', text) == [str(day) for day in days[: overview.DATES]]
    link = html.unescape(re.search(r'href="([^"]+)">earlier dates', text).group(1))  # type: ignore[union-attr]
    text = signed_in.get(f"/{link}").text
    assert re.findall(r'<time datetime="([^"]+)">', text) == [str(day) for day in days[overview.DATES :]]
    assert "newest dates" in text
    onboarded(platform)
    seen = overview.read(["settlement"], before=None, now=NOON + timedelta(days=1))
    assert (seen.dates[0], seen.rows[0].cells[0]) == (date(2026, 11, 20), None)


def test_a_cell_is_the_worst_over_the_destinations_and_marks_that_it_waits(platform: results.Platform) -> None:
    of_days(platform, results.DATE)
    (clean,) = platform.cut_states("settlement", 1)
    broken = replace(clean, destination="archive", compared=Verdict.BREAK)
    cell = overview.Cell((clean, broken))
    assert (cell.word, cell.about.destination, cell.is_waiting) == (Headline.BREAK, "archive", False)
    asked = replace(clean, is_running=True, decision=Decision.asked(["olga"]))
    assert overview.Cell((clean, asked)).is_waiting


def test_what_waits_for_a_person_stands_above_the_dates_and_says_whether_it_is_you(
    signed_in: TestClient, platform: results.Platform
) -> None:
    assert "No cut waits for an answer" in signed_in.get("/page").text
    for who, is_you in (("viewer <b>", True), ("olga", False)):
        waiting = Decision(DecisionState.WAITING, "2026-11-20T00:00:00+00:00", (who,)).to_json()
        platform.runs = {results.RUN: results.run(result={"expectations": NEGATIVE, "decision": waiting})}
        text = signed_in.get("/page").text
        above = text.partition("<h2>Verdicts by business date")[0]
        assert "tasks/approve/required_actions" in above and "2026-11-20 08:00:00 +08:00" in above
        assert ("you are asked" in above) is is_you
        assert "waits</small>" in text.partition("<h2>Verdicts by business date")[2]


def onboarded(platform: results.Platform, verdict_by: str = "06:00") -> None:
    """Since before the dates of the tests, by a plan that wants each verdict by an hour of Shanghai."""
    plan = results.plan(nightly=NightlyPlan(timezone="Asia/Shanghai", verdict_by=verdict_by))
    platform.runs["first"] = results.run(
        run_id="first",
        kind=RunKind.ONBOARD,
        business_date=None,
        plan=plan,
        result={"publish": {"warehouse": "p"}},
        started_at=datetime(2026, 11, 1, tzinfo=UTC),
    )


def test_a_verdict_is_awaited_until_it_is_there_and_late_once_its_hour_has_passed(platform: results.Platform) -> None:
    of_days(platform, results.DATE)
    onboarded(platform)
    assert overview.read(["settlement"], before=None, now=NOON).awaited == ()
    day = results.DATE + timedelta(days=1)
    for hour, is_late, words in ((20, False, "due in 2 h 0 min"), (23, True, "late for 1 h 0 min")):
        now = datetime(2026, 11, 20, hour, tzinfo=UTC)
        seen = overview.read(["settlement"], before=None, now=now)
        (one,) = seen.awaited
        assert (one.business_date, one.is_late, one.in_words(now)) == (day, is_late, words)
        text = page_of("overview.html", lags={}, user="a", framed_by="", before=None, seen=seen)
        assert words in text and "by 2026-11-21 06:00:00 +08:00" in flowing(text)
    # Nobody was to cut a date that ended before the sync was onboarded.
    platform.runs["first"] = replace(platform.runs["first"], started_at=NOON + timedelta(days=1))
    assert overview.read(["settlement"], before=None, now=now).awaited == ()


def test_a_date_that_nobody_can_judge_waits_for_a_person_with_its_reason_its_deadline_and_what_to_do(
    platform: results.Platform,
) -> None:
    """Found by a newcomer: a stream had failed, and the date was in no list."""
    why = "the stream into warehouse has ended: rows are gone"
    tables = [results.table(name, Verdict.INCONCLUSIVE, reason=why) for name in ("account", "ledger_entry")]
    found = results.reconciliation(*tables, evidence={NEEDS_A_PERSON: "put them back"})
    failed = {"task": "complete", "error": "warehouse has no cut", "cure": "clear it"}
    platform.runs = {results.RUN: results.run(state=RunState.FAILED, result={FAILURE: failed})}
    platform.found = [found]
    onboarded(platform)
    seen = overview.read(["settlement"], before=None, now=NOON)
    (one,) = seen.undecided
    assert one.why.startswith(f"{why} (tables: account, ledger_entry); not published")
    assert one.next_step == "put them back; then run the date again"
    assert (one.word, one.is_late(NOON), [each.business_date for each in seen.awaited]) == (
        "INCONCLUSIVE", True, [results.DATE],
    )  # fmt: skip
    above = page_of("overview.html", lags={}, user="a", framed_by="", before=None, seen=seen).partition("Waits for a s")
    assert f"{why} (tables: account" in above[0] and "→ put them back; then run the date again" in above[0]
    assert "No cut waits for an answer" not in above[0]


def test_without_a_declared_hour_a_verdict_is_late_six_hours_after_its_night_was_to_begin(
    platform: results.Platform,
) -> None:
    of_days(platform, results.DATE)
    onboarded(platform, verdict_by="")
    for hour, minute, words in ((22, 29, "due in 1 min"), (22, 30, "late for 0 min")):
        now = datetime(2026, 11, 20, hour, minute, tzinfo=UTC)
        seen = overview.read(["settlement"], before=None, now=now)
        assert [one.in_words(now) for one in seen.awaited] == [words]
        text = page_of("overview.html", lags={}, user="a", framed_by="", before=None, seen=seen)
        assert words in text and "6 hours after its night begins" in text and "No verdict is missing" not in text


def test_a_source_that_cannot_be_read_is_an_exception_with_a_deadline_before_any_verdict_is_due(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform.wanted_streams = (results.WANTED,)
    raised = datetime(2026, 11, 20, 3, tzinfo=UTC)
    alarms = [
        Alarm("source_unreachable", "core_bank", "no heartbeat could be committed <b>", raised),
        Alarm("source_unreachable", "another_bank", "of another sync", raised),
        Alarm("log_size", "core_bank", "it is half full", raised),
    ]
    monkeypatch.setattr(platform, "open_alarms", lambda: tuple(alarms))
    for minutes, is_late, words in ((59, False, "due in 1 min"), (61, True, "late for 1 min")):
        now = raised + timedelta(minutes=minutes)
        seen = overview.read(["settlement"], before=None, now=now)
        (one,) = seen.away
        assert (one.sync, one.source, one.is_late(now), one.in_words(now)) == (
            "settlement",
            "core_bank",
            is_late,
            words,
        )
    text = signed_in.get("/page").text
    assert "Sources that cannot be read" in text and "committed &lt;b&gt;" in text and "of another sync" not in text
    (answered,) = signed_in.get("/api/v1/overview").json()["away"]
    assert (answered["source"], answered["due"]) == ("core_bank", "2026-11-20T04:00:00Z")


def test_streams_that_are_declared_no_more_stand_on_the_overview_for_who_may_see_them(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = StreamId("payments", "warehouse")
    platform.stream_marks = (
        StreamMark(results.STREAM, "core_bank", is_wanted=True),
        StreamMark(gone, "core_bank", is_wanted=False, since=NOON),
    )
    assert "Not declared any more" not in signed_in.get("/page").text
    monkeypatch.setattr(access, "may_see", lambda *_: True)
    text = html.unescape(flowing(signed_in.get("/page").text))
    said = text.partition("Not declared any more</h2>")[2]
    assert "payments@warehouse</strong>: not declared any more since 2026-11-20 04:00:00 +00:00" in said
    assert "has ended, and goes on from its position" in said
    assert "`./seamline stream forget payments warehouse`" in said and "settlement@warehouse" not in said


def test_a_break_that_nobody_signed_is_not_hidden_behind_the_match_of_a_newer_date(
    signed_in: TestClient, platform: results.Platform
) -> None:
    older, newest = date(2026, 11, 18), results.DATE
    names = {day: f"settlement/nightly/{day}/manual__1" for day in (older, newest)}
    platform.found = [
        replace(results.clean(), run_id=names[newest]),
        results.reconciliation(results.table("account", Verdict.BREAK), run_id=names[older]),
    ]
    for decision, word in ((None, "BREAK"), (APPROVED, "MATCH")):
        platform.runs = {
            name: replace(results.published(decision=decision), run_id=name, business_date=day)
            for day, name in names.items()
        }
        assert f'class="verdict {word} "' in of_sync(signed_in.get("/page").text)
        assert f'class="verdict {word} big"' in signed_in.get("/page?sync=settlement").text


def test_a_comparison_without_an_answer_found_no_breaks_and_hides_none(
    signed_in: TestClient, platform: results.Platform
) -> None:
    """Found by a newcomer: three rows were wrong, the stream was paused, and the page said INCONCLUSIVE, 0 breaks."""
    found = results.reconciliation(results.table("account", Verdict.BREAK), scope=Scope.LIVE, run_id="before")
    hidden = results.reconciliation(
        results.table("account", Verdict.INCONCLUSIVE), scope=Scope.LIVE, run_id="settlement/reconcile/-/later"
    )
    platform.found = [hidden, found]
    text = signed_in.get("/page").text
    listed = text.partition("<h2>Live tables")[2]
    rows = [row for row in listed.split("<tr>") if "page?sync=settlement&amp;run=" in row]
    assert ["INCONCLUSIVE" in row for row in rows] == [True, False]
    assert '<td class="n">–</td>' in rows[0] and "✗</span> BREAK" in rows[1]
    assert 'class="verdict BREAK "' in of_sync(text)


def test_a_stream_that_is_paused_or_unheard_is_never_green(signed_in: TestClient, platform: results.Platform) -> None:
    since = datetime(2026, 11, 19, 23, 0, tzinfo=UTC)
    paused = replace(results.WANTED, paused=True, paused_by="olga", paused_at=since, pause_reason="maintenance")
    for wanted, report, words in (
        (paused, results.report(state="paused", epoch=3, log_end_offset=36_437), ("PAUSED", "by olga", "36,437")),
        (results.WANTED, results.report(age_s=44.0), ("UNKNOWN", "no word for 44 s")),
    ):
        platform.wanted_streams, platform.reports = (wanted,), {results.STREAM: report}
        for path in ("/page", "/page?sync=settlement"):
            text = signed_in.get(path).text
            assert f"✗</span> STREAM {words[0]}" in text
            assert all(word in text for word in words[1:])
            assert 'class="well"' not in text
    platform.reports = {results.STREAM: results.report(epoch=3)}
    platform.wanted_streams = (results.WANTED,)
    assert 'class="well"' in signed_in.get("/page").text


# ---- how it reads ----------------------------------------------------------------------------------------------------

TEXTS = ("ink", "quiet", "link", "good", "bad", "unsure")
GROUNDS = ("page", "panel")
ENOUGH = 4.5


def palettes(style: str) -> list[dict[str, str]]:
    """The colours by their names, of the light page and of the dark one."""
    roots = re.findall(r":root \{([^}]*)\}", style)
    return [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", root)) for root in roots]


def contrast(one: str, other: str) -> float:
    """As WCAG 2 defines it, from 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def weak(palette: dict[str, str]) -> list[tuple[str, str]]:
    """Pairs of a text and what it stands on that are hard to read."""
    pairs = [*product(TEXTS, GROUNDS), ("ink", "mark")]
    return [pair for pair in pairs if contrast(palette[pair[0]], palette[pair[1]]) < ENOUGH]


def test_every_text_has_enough_contrast_on_the_light_page_and_on_the_dark_one() -> None:
    style = text_of("style.css")
    light, dark = palettes(style)
    assert light.keys() == dark.keys() and light["page"] != dark["page"]
    assert [weak(palette) for palette in (light, dark)] == [[], []]
    # A colour that is written elsewhere, or faded, would not be among them.
    assert not re.search(r"#[0-9a-fA-F]{3,8}|opacity", re.sub(r":root \{[^}]*\}", "", style))


def test_a_colour_that_is_too_dim_is_caught() -> None:
    light, dark = palettes(text_of("style.css"))
    assert weak({**dark, "bad": "#8f1d1d"}) and weak({**light, "quiet": "#9aa4ae"})
    assert contrast("#000000", "#ffffff") == 21


def test_no_verdict_differs_from_another_by_colour_alone() -> None:
    shown = {
        word: str(PAGES[Language.ENGLISH].get_template("parts.html").module.verdict(word.value)) for word in Headline
    }  # type: ignore[attr-defined]
    assert all(f"</span> {word}</span>" in text for word, text in shown.items())
    signs = {word: re.findall(r'aria-hidden="true">(.)</span>', text)[0] for word, text in shown.items()}
    assert len({signs[word] for word in ("MATCH", "PARTIAL", "BREAK", "INCONCLUSIVE", "NOT_RUN")}) == 5


def test_a_moment_stands_on_one_line_wherever_it_is_shown(signed_in: TestClient, platform: results.Platform) -> None:
    platform.runs = {results.RUN: results.published(decision=APPROVED)}
    of_date = f"/page?sync=settlement&business_date={results.DATE}"
    live = results.reconciliation(results.table("account"), scope=Scope.LIVE)
    platform.found = [results.clean(), live]
    for address in ("/page", "/page?sync=settlement", of_date, f"/page?sync=settlement&run={live.run_id}"):
        text = signed_in.get(address).text
        assert '<span class="at">2026-11-' in text and breakable(text) == [], address
    assert breakable('<p title="2026-11-20 09:00:00">signed at 2026-11-21 09:00:00 +08:00</p>') == ["2026-11-21 09:00"]


@pytest.mark.parametrize(("stored", "are_more"), [(500, False), (501, True)])
def test_where_more_breaks_are_open_than_the_page_judges_it_says_so(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch, stored: int, are_more: bool
) -> None:
    """One that is late and large may stand behind hundreds of older small ones."""
    found = Break("account", BreakType.VALUE, "k", {"balance": "1"}, {"balance": "0"})
    work = Work("0" * 16, WorkState.OPEN, since=NOON, first_at=NOON)

    class Store:
        def waiting(self, syncs: object, *, owner: str, most: int) -> list[Waiting]:
            return [Waiting(work, "settlement", "warehouse", found)] * min(stored, most)

        def mine(self, who: str, syncs: object) -> tuple[()]:
            return ()

    monkeypatch.setattr(parts, "work", lambda: nullcontext(Store()))
    text = signed_in.get("/page").text
    assert ("more open breaks than are judged here by amount and age, which are the 500 oldest" in text) is are_more
