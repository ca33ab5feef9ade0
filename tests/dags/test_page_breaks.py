"""Rows that differ: chosen, ordered and paged; side by side with what differs marked; followed over dates."""

import html
import re
from dataclasses import replace
from datetime import date, timedelta

import pytest
from fastapi.testclient import TestClient

from seamline.domain.break_id import break_id
from seamline.domain.verdict import Break, BreakType, Verdict
from seamline.domain.witness import Mention, Moved, Witness
from seamline.platform.breaks import InCuts
from seamline_airflow.page import break_pages
from seamline_airflow.page.differing import Piece, pairs, pieces
from tests.dags import results
from tests.dags.page_texts import flowing
from tests.dags.stored_breaks import Breaks
from tests.dags.test_page import HOSTILE, WORKED_OUT
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

OF_RUN = {"sync": "settlement", "run": results.RUN, "destination": "warehouse"}


def broken(*breaks: Break, **fields: object) -> object:
    tables = dict.fromkeys(one.table for one in breaks)
    made = [
        results.table(name, Verdict.BREAK, breaks=tuple(one for one in breaks if one.table == name), breaks_total=9)
        for name in tables
    ]
    return results.reconciliation(*made, **fields)


def value(key: str, table: str = "account", kind: BreakType = BreakType.VALUE) -> Break:
    return Break(table, kind, key, {"balance": "1"}, {"balance": "2"})


def keys(text: str) -> list[str]:
    return re.findall(r'<a href="break[?][^"]+"><code>([^<]*)</code>', text)


def test_breaks_are_chosen_and_ordered_by_what_the_address_says(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.found = [
        broken(value("key-b"), value("KEY-a"), value("c", "payment"), value("d", "payment", BreakType.MISSING))
    ]
    for asked, found in (
        ({}, ["key-b", "KEY-a", "c", "d"]),
        ({"table": "payment"}, ["c", "d"]),
        ({"kind": "missing"}, ["d"]),
        ({"text": "key-"}, ["key-b", "KEY-a"]),
        ({"sort": "key"}, ["KEY-a", "c", "d", "key-b"]),
        ({"text": "nothing"}, []),
    ):
        answer = signed_in.get("/breaks", params={**OF_RUN, **asked})
        assert (answer.status_code, keys(answer.text)) == (200, found), asked
    assert 'value="nothing"' in answer.text and "No listed break is like that" in answer.text
    for wrong in ({"kind": "odd"}, {"sort": "odd"}, {"after": "1"}, {"sync": "a b"}, {"scope": "odd"}):
        assert signed_in.get("/breaks", params={**OF_RUN, **wrong}).status_code == 422, wrong


def test_pages_of_breaks_keep_what_was_chosen_until_the_last_one(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(break_pages, "BREAKS_PER_PAGE", 2)
    platform.found = [broken(*(value(f"k{number}") for number in range(5)), value("other", "payment"))]
    text, seen = signed_in.get("/breaks", params={**OF_RUN, "table": "account", "text": "k"}).text, []
    while link := re.search(r'href="([^"]+)">next page', text):
        seen += keys(text)
        text = signed_in.get(f"/{html.unescape(link.group(1))}").text
    assert [*seen, *keys(text)] == ["k0", "k1", "k2", "k3", "k4"]
    first = re.search(r'href="([^"]+)">first page', text)
    assert keys(signed_in.get(f"/{html.unescape(first.group(1))}").text) == ["k0", "k1"]  # type: ignore[union-attr]


def test_the_breaks_of_a_date_are_those_of_its_newest_take_and_of_nothing_there_are_none(
    signed_in: TestClient, platform: results.Platform
) -> None:
    second = f"{results.RUN}~2"
    platform.found = [broken(value("first")), broken(value("again"), run_id=second)]
    platform.runs[second] = replace(results.published(), run_id=second)
    text = signed_in.get(f"/breaks?sync=settlement&business_date={results.DATE}").text
    assert keys(text) == ["again"]
    assert f'href="page?sync=settlement&amp;business_date={results.DATE}&amp;run={second}"' in text, (
        "back to its report"
    )
    assert signed_in.get("/breaks?sync=settlement&business_date=2026-01-01").status_code == 404
    assert signed_in.get("/breaks", params={**OF_RUN, "destination": "nowhere"}).status_code == 404
    for path in (f"/breaks?sync=payroll&run={results.RUN}", f"/break?sync=payroll&id={'0' * 16}"):
        assert signed_in.get(path).status_code == 403


def test_a_break_is_followed_over_dates_until_a_cut_has_it_no_more(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = results.clean().ended_at
    log = Witness(
        Moved.DESTINATION, "the log explains no change of this row since 0-1-7", 5, (Mention("update", "0-1-9", at),)
    )
    one, days = replace(value("stays"), witness=log), [results.DATE - timedelta(days=number) for number in (3, 2, 0)]

    def of(day: date, *breaks: Break) -> None:
        run_id = f"settlement/nightly/{day}/manual__1"
        platform.runs[run_id] = replace(results.published(), run_id=run_id, business_date=day)
        ended = results.clean().ended_at - (results.DATE - day)
        made = broken(*breaks) if breaks else results.clean()
        platform.found.append(replace(made, run_id=run_id, business_date=day, ended_at=ended))  # type: ignore[type-var]

    platform.found, platform.runs = [], {}
    for day in days:
        of(day, one)
    path = f"/break?sync=settlement&id={break_id('settlement', 'warehouse', one)}"
    text = signed_in.get(path).text
    assert "cut of <strong>2026-11-16</strong>, last in that of <strong>2026-11-19</strong>, 3 days later" in text
    assert "Business dates with it: 3." in text
    assert "still has it" in text
    assert "the destination was changed outside Seamline: the log explains no change of this row since 0-1-7" in text
    assert "update at <code>0-1-9</code>, committed 2026-" in flowing(text) and "; 4 before" in text
    assert re.findall(r">(2026-11-\d\d)</a>", text) == ["2026-11-19", "2026-11-17", "2026-11-16"]
    of(results.DATE + timedelta(days=1))
    assert "The cut of 2026-11-20 has it no more" in signed_in.get(path).text
    # As of a table that is read by its dates: the cut of the next date says nothing about the row.
    standing = InCuts(days[0], days[-1], 90, is_standing=True)
    monkeypatch.setattr(Breaks, "in_cuts", lambda *_: standing)
    text = signed_in.get(path).text
    assert "has it no more" not in text and "The newest cut that has looked for it still has it" in text
    assert "Business dates with it: 90." in text, "however many comparisons are listed"
    assert signed_in.get(f"/break?sync=settlement&id={'0' * 16}").status_code == 404
    assert signed_in.get("/break?sync=settlement&id=odd").status_code == 422


def test_hostile_values_of_breaks_are_shown_and_never_act(signed_in: TestClient, platform: results.Platform) -> None:
    one = Break(HOSTILE, BreakType.VALUE, HOSTILE, {HOSTILE: HOSTILE}, {HOSTILE: f"{HOSTILE} "})
    platform.found = [broken(one, destination=HOSTILE)]
    identity = break_id("settlement", HOSTILE, one)
    for path, params in (
        ("/breaks", {**OF_RUN, "destination": HOSTILE, "table": HOSTILE, "text": HOSTILE}),
        ("/breaks", {**OF_RUN, "destination": HOSTILE, "run": HOSTILE}),
        ("/break", {"sync": "settlement", "id": identity}),
    ):
        text = signed_in.get(path, params=params).text
        assert "&lt;script&gt;" in text and "<script" not in text and not WORKED_OUT.search(text)
        assert not re.search(r'"[^"<>]*<script', text)


def test_forms_are_sent_to_the_pages_own_origin_only_and_say_where_they_come_from(
    signed_in: TestClient, platform: results.Platform
) -> None:
    for path in ("/breaks", "/page", "/break", "/style.css"):
        headers = signed_in.get(path, params=OF_RUN).headers
        policy = headers["content-security-policy"]
        assert "form-action 'self';" in policy and "script" not in policy
        assert headers["referrer-policy"] == "same-origin"
    assert 'method="get"' in signed_in.get("/breaks", params=OF_RUN).text


# ---- side by side ----------------------------------------------------------------------------------------------------


def marked(sides: tuple[tuple[Piece, ...], ...]) -> list[str]:
    return ["".join(f"[{piece.text}]" if piece.differs else piece.text for piece in side) for side in sides]


@pytest.mark.parametrize(
    ("mine", "theirs", "shown"),
    [
        ("100.00", "100.01", ["100.0[0]", "100.0[1]"]),
        ("Müller ", "Müller", ["Müller[ ]", "Müller"]),
        ("", "a", ["", "[a]"]),
        ("aa", "a", ["a[a]", "a"]),
        ("same", "same", ["same", "same"]),
        ("1ab2cd3", "1xb2yd3", ["1[a]b2[c]d3", "1[x]b2[y]d3"]),
        ("begin" + "x" * 2_000, "begin" + "y" * 2_000, ["begin[" + "x" * 2_000 + "]", "begin[" + "y" * 2_000 + "]"]),
    ],
)
def test_exactly_the_signs_that_differ_are_marked(mine: str, theirs: str, shown: list[str]) -> None:
    made = pieces(mine, theirs)
    assert marked(made) == shown
    assert ["".join(piece.text for piece in side) for side in made] == [mine, theirs]


def test_a_missing_row_a_null_and_an_empty_text_are_three_things(
    signed_in: TestClient, platform: results.Platform
) -> None:
    nulls = Break("account", BreakType.VALUE, "1", {"owner": None}, {"owner": ""})
    missing = Break("account", BreakType.MISSING, "2", {"owner": "x"}, None)
    platform.found = [broken(nulls, missing, Break("account", BreakType.SCHEMA, "3"))]
    text = signed_in.get("/breaks", params=OF_RUN).text
    for word in ("NULL", "empty", "no such row"):
        assert f'<span class="faint">{word}</span>' in text
    (pair,) = pairs({"owner": None}, {"owner": ""})
    assert (pair.source, pair.source_is_null, pair.destination, pair.destination_is_null) == ((), True, (), False)
