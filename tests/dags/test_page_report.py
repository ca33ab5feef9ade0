"""The report of a date: what differs in which currency, which breaks of which kind, and what changed since before."""

import re
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from fastapi.testclient import TestClient

from seamline.domain.log_patch import LOG, LOG_BETWEEN, LogBetween, log_between_to_json
from seamline.domain.runs import Scope
from seamline.domain.separate import READINGS, SEPARATE, Reading, Stand, readings_to_json
from seamline.domain.verdict import Break, BreakType, ControlTotal, Verdict
from seamline_airflow.page import date_report
from seamline_airflow.page.language import COOKIE, Language
from tests.dags import results
from tests.dags.page_texts import flowing
from tests.dags.test_page import date_page
from tests.dags.test_page import platform as platform
from tests.dags.test_page import signed_in as signed_in

EUR, USD = ("EUR",), ("USD",)


def total(group: tuple[str, ...], source: str, destination: str, column: str = "amount") -> ControlTotal:
    return ControlTotal("ledger_entry", column, group, 3, 3, Decimal(source), Decimal(destination))


def cells(text: str, heading: str) -> list[list[str]]:
    """The rows of the table below a heading, as texts, without the head."""
    table = text.partition(f"<h3>{heading}")[2].partition("</table>")[0]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL) for row in table.split("<tr")]
    return [[re.sub(r"<[^>]+>|\s+", " ", cell).strip() for cell in row] for row in rows if row]


def test_totals_show_their_difference_and_what_differs_is_summed_per_group(
    signed_in: TestClient, platform: results.Platform
) -> None:
    totals = (total(EUR, "10.00", "7.50"), total(EUR, "1", "2", "fee"), total(USD, "5", "5"), total((), "8", "8.25"))
    platform.found = [results.reconciliation(results.table("ledger_entry", Verdict.BREAK, totals=totals))]
    text = date_page(signed_in)
    assert [row[-1] for row in cells(text, "Control totals")] == ["-2.50", "+1", "0", "+0.25"]
    assert cells(text, "Exposure") == [
        ["amount", "all", "1", "0", "+0.25", "0.25"],
        ["amount", "EUR", "1", "0", "-2.50", "2.50"],
        ["fee", "EUR", "1", "0", "+1", "1"],
    ]
    assert text.count('<td class="n differs">-2.50</td>') == 2, "in both tables"
    assert text.index("Exposure") < text.index("Completeness") < text.index("Control totals")
    platform.found = [results.clean()]
    assert "Exposure" not in date_page(signed_in)


def test_sums_are_written_in_full_and_one_that_is_no_number_has_no_difference(
    signed_in: TestClient, platform: results.Platform
) -> None:
    totals = (total(EUR, "1E+3", "1e-7"), total(USD, "NaN", "1"))
    platform.found = [results.reconciliation(results.table("ledger_entry", Verdict.BREAK, totals=totals))]
    text = date_page(signed_in)
    assert [row[-3:] for row in cells(text, "Control totals")] == [
        ["1,000", "0.0000001", "-999.9999999"],
        ["NaN", "1", "–"],
    ]
    assert [row[1] for row in cells(text, "Exposure")] == ["EUR", "USD"]


def test_the_header_says_level_and_mode_and_codes_stand_behind_the_money(
    signed_in: TestClient, platform: results.Platform
) -> None:
    platform.found = [replace(results.clean(), evidence={"config_hash": "c0ffee", "digest": "cdg1"})]
    text = date_page(signed_in)
    first = text.index("one commit moves all tables of the sync and the ledger")
    assert first < text.index("read: the destination holds") + 200
    for code in ("0-7-100", "c0ffee", "cdg1"):
        assert text.index("Control totals") < text.index(code)


@pytest.mark.parametrize(
    ("mode", "said", "in_chinese"),
    [("delivered", "read", "读取"), ("read", "read", "读取"), ("log", "state as of", "状态截至")],
)
def test_the_moment_of_a_cut_is_not_called_a_commit(
    signed_in: TestClient, platform: results.Platform, mode: str, said: str, in_chinese: str
) -> None:
    platform.found = [replace(results.clean(), mode=mode)]
    assert f"<dt>{said}</dt><dd>2026-11-20 00:31:00 +08:00" in flowing(date_page(signed_in))
    signed_in.cookies.set(COOKIE, Language.CHINESE)
    assert f"<dt>{in_chinese}</dt><dd>2026-11-20 00:31:00 +08:00" in flowing(date_page(signed_in))


def test_breaks_are_counted_by_kind_with_what_they_differ_by_in_each_currency(
    signed_in: TestClient, platform: results.Platform
) -> None:
    missing = Break("ledger_entry", BreakType.MISSING, "1", {"amount": "10.00", "currency": "EUR"}, None)
    value = Break("ledger_entry", BreakType.VALUE, "2", {"amount": "5"}, {"amount": "7"})
    table = results.table(
        "ledger_entry",
        Verdict.BREAK,
        breaks=(missing, value),
        breaks_total=9,
        totals=(total(EUR, "15", "7"), total(USD, "1", "1")),
    )
    platform.found = [results.reconciliation(table)]
    rows = cells(date_page(signed_in), "Breaks by kind")
    assert rows == [
        ["ledger_entry", "missing", "1", "amount", "EUR", "1", "-10.00", "10.00"],
        ["ledger_entry", "value", "1", "amount", "several, see the control totals", "1", "–", "–"],
        ["ledger_entry", "found, and not listed", "7", ""],
    ]
    # Where all totals are of one group its breaks are too.
    platform.found = [results.reconciliation(replace(table, totals=table.totals[:1]))]
    assert cells(date_page(signed_in), "Breaks by kind")[1][4:] == ["EUR", "1", "+2", "2"]


def test_a_take_says_what_has_changed_since_the_one_before_it(
    signed_in: TestClient, platform: results.Platform
) -> None:
    second = f"{results.RUN}~2"
    stays, goes, comes = (Break("ledger_entry", BreakType.VALUE, key, {"a": "1"}, {"a": "2"}) for key in "abc")

    def found(run_id: str, verdict: Verdict, totals: ControlTotal, *breaks: Break) -> None:
        table = results.table("ledger_entry", verdict, breaks=breaks, breaks_total=len(breaks), totals=(totals,))
        platform.found.append(results.reconciliation(table, run_id=run_id))

    platform.found = []
    found(results.RUN, Verdict.BREAK, total(EUR, "10.00", "7.50"), stays, goes)
    found(second, Verdict.BREAK, total(EUR, "10.00", "10.00"), stays, comes)
    platform.runs[second] = replace(results.published(), run_id=second)
    text = date_page(signed_in).partition("Since the take before")[2].partition("</ul>")[0]
    assert "destination 7.50 → 10.00 (0 rows)" in text
    assert "breaks: 1 gone, 1 new" in text
    assert re.findall(r"(gone|new): ledger_entry, value, .*<code>(.)</code>", text) == [("gone", "b"), ("new", "c")]
    assert "verdict:" not in text
    first = signed_in.get("/page", params={"sync": "settlement", "business_date": results.DATE, "run": results.RUN})
    assert "Since the take before" not in first.text
    found(f"{results.RUN}~3", Verdict.BREAK, total(EUR, "10.00", "10.00"), stays, comes)
    platform.runs[f"{results.RUN}~3"] = replace(results.published(), run_id=f"{results.RUN}~3")
    assert "The same verdict, totals and breaks" in date_page(signed_in)


def test_a_report_shows_the_first_breaks_of_a_table_and_leads_to_all_of_them(
    signed_in: TestClient, platform: results.Platform, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(date_report, "BREAKS_SHOWN", 2)
    breaks = tuple(Break("account", BreakType.VALUE, f"key-{key}", {"a": "1"}, {"a": "2"}) for key in range(3))
    for scope, path in (
        (Scope.CUT, f"/page?sync=settlement&business_date={results.DATE}"),
        (Scope.CUT, "/page?dag_id=settlement__nightly&run_id=manual__1"),
        (Scope.LIVE, f"/page?sync=settlement&run={results.RUN}"),
    ):
        table = results.table("account", Verdict.BREAK, breaks=breaks, breaks_total=3)
        platform.found = [results.reconciliation(table, scope=scope)]
        text = signed_in.get(path).text
        assert "key-1" in text and "key-2" not in text
        link = re.search(r'href="(breaks[^"]+)">all breaks of account', text)
        whole = signed_in.get(f"/{link.group(1)}".replace("&amp;", "&")).text  # type: ignore[union-attr]
        assert "key-2" in whole


def test_a_comparison_whose_run_has_expired_still_has_its_report(
    signed_in: TestClient, platform: results.Platform
) -> None:
    table = results.table(
        "ledger_entry",
        Verdict.BREAK,
        totals=(total(EUR, "1", "2"),),
        breaks=(Break("ledger_entry", BreakType.VALUE, "k", {"amount": "1"}, {"amount": "2"}),),
    )
    moment = results.clean().started_at + timedelta(days=500)
    platform.found = [results.reconciliation(table, scope=Scope.LIVE, run_id="gone/reconcile/-/x", started_at=moment)]
    text = signed_in.get("/page?sync=settlement&run=gone/reconcile/-/x").text
    assert cells(text, "Breaks by kind")[0][3:] == ["amount", "EUR", "1", "+1", "1"]


def test_a_comparison_between_two_positions_says_what_its_verdicts_mean(
    signed_in: TestClient, platform: results.Platform
) -> None:
    first = Reading(Stand("0/1A", results.AT, "7:7:"), Stand("", results.AT))
    evidence = {READINGS: readings_to_json(first, first, in_flight_max_s=60)}
    made = results.reconciliation(
        results.table("account"), scope=Scope.LIVE, run_id="settlement/reconcile/-/manual__1", mode=SEPARATE,
        position=None, position_time=None, evidence=evidence,
    )  # fmt: skip
    platform.found, platform.runs = [made], {}
    text = signed_in.get(f"/page?sync=settlement&run={made.run_id}").text
    assert "separate: each side at a position of its own" in text and "each side at its own position" in text
    assert "INCONCLUSIVE: what differed was in flight" in text and "a place that its server does not say" in text
    assert "the source committed nothing between both readings" in text


def test_a_comparison_by_the_log_says_both_positions_and_what_lay_between(
    signed_in: TestClient, platform: results.Platform
) -> None:
    between = LogBetween("0/2B", "0/1A", transactions=3, changes=1_700)
    made = results.reconciliation(
        results.table("account"), scope=Scope.LIVE, run_id="settlement/reconcile/-/manual__1", mode=LOG,
        evidence={LOG_BETWEEN: log_between_to_json(between)},
    )  # fmt: skip
    platform.found, platform.runs = [made], {}
    text = signed_in.get(f"/page?sync=settlement&run={made.run_id}").text
    assert "log-patched: the log between both positions was applied" in text
    assert "source at 0/2B, destination at 0/1A, 1,700 changes of the log in 3 transactions between" in text
