"""Calendars as files: what is wrong of one, and what a sync has of them."""

from datetime import date
from pathlib import Path

import pytest

from seamline.domain.business_dates import Is, Rule
from seamline.domain.day_closed import ClosedBy
from seamline.domain.made_from import MadeFrom
from seamline.plan.compile import compile_plan
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import declared_dates, load_declarations
from tests.unit.declared import SYNC, write_declarations

CALENDAR = """\
calendar: cn_bank
from: 2026-01-01
until: 2026-12-31
holidays:
  - 2026-01-01
  - {date: 2026-10-01, until: 2026-10-07, name: 国庆节}
working_days:
  - {date: 2026-10-10, name: 调休}
half_days:
  - {date: 2026-12-24, closes_at: "12:00"}
"""
FILE = "calendars/cn_bank.yaml"
NIGHTLY = "  timezone: Asia/Shanghai\n"


def _sync(*lines: str) -> str:
    return SYNC.replace(NIGHTLY, NIGHTLY + "".join(f"  {line}\n" for line in lines))


def test_a_sync_names_its_calendars_and_they_go_with_its_plan(tmp_path: Path) -> None:
    files = {FILE: CALENDAR, "syncs/settlement.yaml": _sync("calendars: [cn_bank]", "business_date_if: any")}
    plan = compile_plan(load_declarations(write_declarations(tmp_path, files)), "settlement")
    assert plan.nightly is not None
    dates = plan.nightly.dates
    assert dates.rule is Rule.ANY
    assert [dates.look(date(2026, 10, day)).is_ for day in (7, 8, 10, 11)] == [
        Is.CLOSED,
        Is.OPEN,
        Is.OPEN,
        Is.CLOSED,
    ]
    assert plan_from_json(plan_to_json(plan)) == plan
    # A stream has no nights: an edit of a calendar does not start it anew.
    assert "cn_bank" not in plan_to_json(plan.of_stream("warehouse"))


def test_an_edit_of_a_calendar_is_another_declaration_of_its_syncs(tmp_path: Path) -> None:
    sync = {"syncs/settlement.yaml": _sync("calendars: [cn_bank]")}
    one = compile_plan(load_declarations(write_declarations(tmp_path, {FILE: CALENDAR} | sync)), "settlement")
    text = CALENDAR.replace("2026-01-01\n  -", "2026-01-02\n  -")
    other = compile_plan(load_declarations(write_declarations(tmp_path, {FILE: text} | sync)), "settlement")
    assert one.config_hash != other.config_hash


def test_the_page_has_the_dates_of_a_sync_by_its_files_alone(tmp_path: Path) -> None:
    sync = {"syncs/settlement.yaml": _sync("calendars: [cn_bank]", "business_date_if: any")}
    folder = write_declarations(tmp_path, {FILE: CALENDAR} | sync)
    plan = compile_plan(load_declarations(folder), "settlement")
    assert plan.nightly is not None
    assert declared_dates(folder, "settlement") == plan.nightly.dates
    (folder / FILE).write_text("calendar: cn_bank\n")
    assert declared_dates(folder, "settlement") is None
    assert declared_dates(folder, "another") is None


@pytest.mark.parametrize(
    ("what", "instead", "line", "path", "said"),
    [
        ("until: 2026-12-31", "until: 2025-12-31", 3, "until", "is before `from`"),
        ("  - 2026-01-01\n", "  - 2027-01-01\n", 5, "holidays[0]", "outside of what the calendar knows"),
        ("{date: 2026-10-10,", "{date: 2026-10-05,", 8, "working_days[0]", "is a holiday too"),
        ("{date: 2026-10-10,", "{date: 2026-10-12,", 8, "working_days[0]", "a monday, a business day anyway"),
        ("{date: 2026-12-24,", "{date: 2026-12-26,", 10, "half_days[0]", "no business day: Saturday"),
        ("until: 2026-10-07", "until: 2026-09-07", 6, "holidays[1]", "ends on 2026-09-07, before it begins"),
        ("calendar: cn_bank", "calendar: cn_bnk", 1, "calendar", "the file is named cn_bank.yaml"),
        ("  - 2026-01-01\n", "  - someday\n", 5, "holidays[0].date", "a day as 2027-03-31"),
    ],
)
def test_what_is_wrong_of_a_calendar_is_said_with_its_line(
    tmp_path: Path, what: str, instead: str, line: int, path: str, said: str
) -> None:
    with pytest.raises(DeclarationsInvalid) as invalid:
        load_declarations(write_declarations(tmp_path, {FILE: CALENDAR.replace(what, instead)}))
    (fault,) = invalid.value.faults
    assert (fault.line, fault.path) == (line, path)
    assert said in fault.cause


@pytest.mark.parametrize(
    ("lines", "path", "said"),
    [
        (["calendars: [cn_bnk]"], "nightly.calendars[0]", "there is no calendar `cn_bnk`"),
        (["calendars: [cn_bank, cn_bank]"], "nightly.calendars[1]", "is already on line 9"),
        (["ready_when: {}"], "nightly.ready_when", "needs one of sql, file, asset"),
        (["ready_when: {sql: select 1}"], "nightly.ready_when.sql", "has no :date"),
        (['ready_when: {file: "/etc/{date}"}'], "nightly.ready_when.file", "no name of a file below"),
        (['ready_when: {file: "../{date}"}'], "nightly.ready_when.file", "no name of a file below"),
        (["cut_off: {table: system_date}"], "nightly.cut_off.column", "is missing"),
        (["from: log", "ready_when: {sql: 'select :date'}"], "nightly", "`ready_when` is not in the log"),
        (
            ["from: log", "cut_off: {table: system_date, column: day}"],
            "nightly.cut_off.table",
            "no table of this sync has its rows whole",
        ),
        (['cut_off: "09:00"'], "nightly", "before the date ends at 09:00"),
        (['stages_by: {closed: "00:10"}'], "nightly.stages_by.closed", "is not after run_at 00:30"),
        (['stages_by: {cut: "03:00", publish: "02:00"}'], "nightly.stages_by.publish", "is not after cut 03:00"),
    ],
)
def test_what_a_sync_says_wrongly_of_its_nights_is_said(tmp_path: Path, lines: list[str], path: str, said: str) -> None:
    files = {FILE: CALENDAR, "syncs/settlement.yaml": _sync(*lines)}
    with pytest.raises(DeclarationsInvalid) as invalid:
        load_declarations(write_declarations(tmp_path, files))
    (fault,) = invalid.value.faults
    assert fault.path == path
    assert said in fault.cause


def test_a_system_date_ends_a_date_in_the_log_where_its_table_is_in_the_sync(tmp_path: Path) -> None:
    lines = ["from: auto", "cut_off: {table: account, column: day}"]
    by_date = _sync(*lines).replace("as: instant", "as: date")
    # Rows that count by the clock end at midnight, wherever the log moves the system date on.
    by_clock = [by_date.replace("as: date", f"as: {holds}") for holds in ("instant", "local")]
    read = [by_date.replace("table: account", "table: other"), *by_clock]
    for given, way in ((by_date, MadeFrom.AUTO), *((one, MadeFrom.READ) for one in read)):
        files = {"syncs/settlement.yaml": given}
        plan = compile_plan(load_declarations(write_declarations(tmp_path, files)), "settlement")
        assert plan.nightly is not None and plan.nightly.made_from is way
    for one in by_clock:
        write_declarations(tmp_path, {"syncs/settlement.yaml": one.replace("from: auto", "from: log")})
        with pytest.raises(DeclarationsInvalid, match="rows between the two would be in no cut"):
            load_declarations(tmp_path)


def test_a_night_waits_for_the_system_date_and_for_what_is_declared(tmp_path: Path) -> None:
    lines = ["cut_off: {table: system_date, column: business_date}", 'ready_when: {file: "eod/{date}.ok", every: 30s}']
    files = {"syncs/settlement.yaml": _sync(*lines)}
    plan = compile_plan(load_declarations(write_declarations(tmp_path, files)), "settlement")
    assert plan.nightly is not None
    waits = [(one.by, one.what, one.column, one.every_s) for one in plan.nightly.closed_when]
    assert waits == [
        (ClosedBy.SYSTEM_DATE, "system_date", "business_date", 60),
        (ClosedBy.FILE, "eod/{date}.ok", "", 30),
    ]
    assert plan_from_json(plan_to_json(plan)) == plan
