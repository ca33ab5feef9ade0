"""Pictures of numbers over time: true to the numbers, readable without them, and nothing in the data acts in them."""

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from xml.etree import ElementTree

import pytest
from fastapi.testclient import TestClient

from seamline.domain.break_age import Aged
from seamline.domain.ledger import StreamId
from seamline.domain.verdict import Verdict
from seamline.platform.totals import Series
from seamline_airflow.page import reports
from seamline_airflow.page.charts import HEIGHT, WIDTH, bars, day_chart, sparkline
from seamline_airflow.page.over_ages import drawn_by_age
from seamline_airflow.page.over_dates import name_of
from tests.dags import results
from tests.dags.test_page import HOSTILE
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in


def drawn(picture: str) -> ElementTree.Element:
    """As a browser reads it: what is not well formed fails here."""
    return ElementTree.fromstring(picture)


def points(line: ElementTree.Element) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in (pair.split(",") for pair in line.attrib["points"].split())]


def test_a_higher_value_stands_higher_and_a_missing_one_is_a_gap() -> None:
    found = drawn(sparkline([1.0, 4.0, 2.0, None, 3.0, None, 1.0, 1.0], "lag"))
    first, last = (points(line) for line in found.findall("polyline"))
    assert first[1][1] < first[2][1] < first[0][1]
    assert [len(first), len(last), len(found.findall("circle"))] == [3, 2, 1]
    assert all(0 <= x <= WIDTH and 0 <= y <= HEIGHT for x, y in first + last)
    assert last[-1][0] > first[-1][0]


def test_a_small_lag_is_not_drawn_as_a_large_one() -> None:
    """The least height is a second: 20 ms that become 40 are no cliff."""
    (line,) = drawn(sparkline([0.02, 0.04], "lag")).findall("polyline")
    (_, before), (_, after) = points(line)
    assert before - after < 1


def test_bars_hang_below_the_line_where_a_value_is_negative() -> None:
    found = drawn(bars([Decimal("10"), Decimal("-5"), None, Decimal("0")], "sum", marked=[False, True]))
    zero = float(found.find("line").attrib["y1"])  # type: ignore[union-attr]
    above, below, nothing = found.findall("rect")
    assert float(above.attrib["y"]) + float(above.attrib["height"]) == zero == float(below.attrib["y"])
    assert float(above.attrib["height"]) > float(below.attrib["height"]) > float(nothing.attrib["height"])
    assert [one.attrib["class"] for one in (above, below)] == ["bar", "bar bad"]


def test_breaks_by_age_have_a_bar_for_each_band_and_open_ones_stand_out() -> None:
    found = drawn(drawn_by_age([Aged(0, 1_200, 0, 0), Aged(2, 3, 1, 3)], (0, 2)))
    assert found.findtext("title") == "breaks by age: 0 days 1,200; >2 days 3"
    assert [one.attrib["class"] for one in found.findall("rect")] == ["bar", "bar", "bar bad"]


def test_nothing_to_draw_is_said_and_titles_are_text() -> None:
    assert "nothing reported" in sparkline([None, None], "lag") and "no numbers" in bars([None], "sum")
    for picture in (sparkline([1.0], HOSTILE), bars([1], HOSTILE)):
        assert drawn(picture).findtext("title") == HOSTILE
        assert "<script" not in picture


def test_the_overview_draws_the_last_day_of_each_stream(signed_in: TestClient, platform: results.Platform) -> None:
    assert signed_in.get("/page").text.count("<svg") == 0
    platform.lags_of = {results.STREAM: (*[0.5] * 90, None, None, 12.0, 0.5, 0.5, 0.5)}
    for address in ("/page", "/page?sync=settlement"):
        text = signed_in.get(address).text
        assert text.count('<svg class="spark"') == 1
        assert text.count('<svg class="day"') == (1 if "sync=" in address else 0)
        assert "at most 12.0 s; nothing reported in 2 of 96 quarters of an hour" in text


def test_the_lag_of_a_day_has_hours_seconds_and_its_limit() -> None:
    until = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
    values = [1.0] * 48 + [None] * 2 + [90.0] + [0.0] * 45
    found = drawn(day_chart(values, "lag", until=until, limit=30.0))
    assert [one.text for one in found.findall("text")] == [
        "0 s", "90.0 s", "30 s", "09:30", "15:30", "21:30", "03:30", "09:30"
    ]  # fmt: skip
    bottom, top, limit = (float(one.attrib["y1"]) for one in found.findall("line"))
    assert top < limit < bottom and round((bottom - limit) * 3) == round(bottom - top)
    before, after = (points(line) for line in found.findall("polyline"))
    assert before[-1][0] < after[0][0] and after[0][1] == top and after[-1][1] == bottom
    assert (before[0][0], after[-1][0]) == (78, 558), "the first hour stands under the first value"
    unbroken = drawn(day_chart([1.0, 2.0], "lag", until=until, limit=30.0))
    assert len(unbroken.findall("line")) == 2, "a limit far above all values would flatten them"
    assert "nothing reported" in day_chart([None], "lag", until=until, limit=None)


def test_a_sync_draws_its_rows_breaks_and_totals_over_dates(signed_in: TestClient, platform: results.Platform) -> None:
    assert "<svg" not in signed_in.get("/page?sync=settlement").text
    days = [results.DATE - timedelta(days=number) for number in (2, 1, 0)]
    runs = [f"settlement/nightly/{day}/manual__1" for day in days]
    platform.runs = {
        run: replace(results.published(), run_id=run, business_date=day) for run, day in zip(runs, days, strict=True)
    }
    entry = results.table("ledger_entry")
    sums = (results.total("7.5", "7.5"), results.total("-2.5", "-2.5"), results.total("3.1", "3.1"))
    platform.found = [
        results.reconciliation(
            results.table("account", Verdict.BREAK if place == 1 else Verdict.MATCH),
            replace(entry, totals=(one,)),
            run_id=run,
            business_date=day,
        )
        for place, (run, day, one) in enumerate(zip(runs, days, sums, strict=True))
    ]
    text = signed_in.get("/page?sync=settlement").text
    pictures = [drawn(found) for found in re.findall(r"<svg.*?</svg>", text, re.DOTALL)]
    titles = [one.findtext("title") for one in pictures]
    assert titles == [
        "rows compared of warehouse for each of 3 business dates from 2026-11-17 to 2026-11-19: last 4",
        "breaks of warehouse for each of 3 business dates from 2026-11-17 to 2026-11-19: most 1",
        "sum of ledger_entry.amount, EUR of warehouse for each of 3 business dates from 2026-11-17 to 2026-11-19:"
        " last 3.1",
    ]
    marked = [[bar.attrib["class"] for bar in one.findall("rect")] for one in pictures]
    assert marked[1] == ["bar", "bar bad", "bar"]
    # The date in the middle has a negative sum, which begins where the positive ones end.
    heights = [(float(bar.attrib["y"]), float(bar.attrib["height"])) for bar in pictures[2].findall("rect")]
    assert heights[1][0] == heights[0][0] + heights[0][1]


def test_a_line_over_dates_is_called_by_what_it_adds_up_and_by_a_group_only_where_there_is_one() -> None:
    """Derived tables have no column and no group; a hash total names what it is in its column."""
    found = [
        name_of(Series(*about, sums=()))
        for about in (
            ("daily_balance", "", ()),
            ("account", "balance", ()),
            ("ledger_entry", "amount", ("EUR", "CH")),
            ("ledger_entry", "hash total of account_id", ("EUR",)),
        )
    ]
    assert found == [
        "rows of daily_balance",
        "sum of account.balance",
        "sum of ledger_entry.amount, EUR / CH",
        "ledger_entry: hash total of account_id, EUR",
    ]


def test_the_lag_charts_of_a_sync_stand_in_the_order_of_its_streams(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of the declaration, in which a name further down the alphabet may stand first."""
    monkeypatch.setattr(reports, "destinations_of", lambda _sync: ("warehouse", "archive"))
    platform.lags_of = {StreamId("settlement", name): (1.0,) * 96 for name in ("archive", "gone", "warehouse")}
    text = signed_in.get("/page?sync=settlement").text
    assert re.findall(r"Lag of settlement@(\w+)", text) == ["warehouse", "archive", "gone"]
