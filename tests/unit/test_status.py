"""`seamline status` says by its exit code what its text says."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.cli import seen
from seamline.cli.main import main
from seamline.domain.cut_state import CutState
from seamline.domain.decision import Decision, DecisionState
from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.masking import MASK
from seamline.domain.runs import Reconciliation, RunKind, RunState, SyncState
from seamline.domain.verdict import Break, BreakType, TableVerdict, Verdict
from seamline.plan.document import plan_to_json
from seamline.plan.model import Run
from seamline.platform.store import Alarm
from seamline.ports import StreamReport, WantedStream
from seamline.sync import headline
from seamline.sync.capture_watch import CAPTURE_FAILED
from tests.log_topic import sync_plan
from tests.unit.declared import SYNC, write_declarations
from tests.unit.reported import MATCH, MOMENT, TODAY, cut, reconciliation

BREAK = TableVerdict("account", Verdict.BREAK, reason="1 row differs", breaks_total=1)


@dataclass
class Platform:
    """What the command asks of the platform database."""

    found: list[Reconciliation]
    state: SyncState | None = SyncState.ENABLED
    alarms: tuple[Any, ...] = ()
    cuts: list[CutState] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    onboarded: tuple[str, ...] = ()

    def latest_run(self, _: str, *kinds: str) -> Run | None:
        return next((one for one in self.runs if one.kind in kinds), None)

    def published_into(self, _: str) -> dict[str, None]:
        return dict.fromkeys(self.onboarded)

    def sync_state(self, _: str) -> SyncState | None:
        return self.state

    def live_reconciliations(self, *_: object) -> list[Reconciliation]:
        return self.found

    def cut_states(self, *_: object) -> list[CutState]:
        return self.cuts

    def timezone(self, _: str) -> str:
        return "Asia/Shanghai"

    def open_alarms(self) -> tuple[Any, ...]:
        return self.alarms

    def close(self) -> None:
        """Nothing is open."""


STREAM = StreamId("settlement", "warehouse")
STREAMING = StreamReport(STREAM, "streaming", epoch=3, age_s=1.0)
WANTED = WantedStream(STREAM, plan_to_json(sync_plan()), 1)


def status_of(
    monkeypatch: pytest.MonkeyPatch,
    platform: Platform,
    *arguments: str,
    streams: Sequence[StreamReport] = (),
    wanted: Sequence[WantedStream] = (),
) -> int:
    director = SimpleNamespace(
        marks=lambda: (),
        latest_reports=lambda: {one.stream: one for one in streams},
        all_wanted=lambda: wanted,
        hosts=tuple,
        close=lambda: None,
    )
    monkeypatch.setattr(seen.registry, "platform", lambda: platform)
    monkeypatch.setattr(seen.registry, "director", lambda: director)
    signatures = SimpleNamespace(kept=lambda _: (), close=lambda: None)
    monkeypatch.setattr(seen.registry, "signatures", lambda: signatures)
    return main(["status", *arguments])


def test_after_down_the_cure_is_up(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Found by a newcomer: it said to check that the server runs."""

    def away() -> None:
        raise TransientError("PostgreSQL cannot be reached", hint="check that the server runs")

    monkeypatch.setattr(seen.registry, "platform", away)
    for is_running, cure in (
        (False, "→ `./seamline up` starts the local stack"),
        (True, "→ check that the server runs"),
    ):
        monkeypatch.setattr(seen.keeper, "is_running", lambda _, answer=is_running: answer)
        monkeypatch.setattr(seen.keeper, "states", lambda _: {})
        assert main(["status"]) == TransientError.exit_code
        assert cure in capsys.readouterr().out


def test_a_match_is_zero_and_a_break_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_of(monkeypatch, Platform([reconciliation(MATCH)])) == 0
    assert status_of(monkeypatch, Platform([reconciliation(MATCH, BREAK)])) == 1


def test_a_failed_onboarding_is_not_zero_and_says_what_failed_when_and_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Found by a newcomer: the live tables of before were a MATCH, and nothing else was said."""
    failure = {"task": "preflight", "error": "no column", "cure": "correct it", "at": MOMENT.isoformat()}
    failed = Run("o", "settlement", RunKind.ONBOARD, None, sync_plan(), RunState.FAILED, {"failure": failure}, MOMENT)
    later = replace(failed, run_id="t", kind=RunKind.TABLES, started_at=MOMENT + timedelta(hours=1), result={})
    live = [reconciliation(MATCH)]
    for runs, word in (
        ([failed], "FAILED"),
        ([later], "FAILED"),
        ([failed, replace(later, state=RunState.SUCCEEDED)], "MATCH"),
        ([failed, replace(later, state=RunState.RUNNING)], "MATCH"),
        ([replace(failed, kind=RunKind.RECONCILE)], "MATCH"),
    ):
        is_red = status_of(monkeypatch, Platform(live, runs=runs, onboarded=("warehouse",)))
        said = capsys.readouterr().out
        assert (is_red, f"settlement: enabled, {word}\n" in said) == (word == "FAILED", True)
        if runs == [failed]:
            assert "FAILED         onboarding into warehouse: task preflight failed at 2026-11-21 09:02:03" in said
            assert "+08:00: no column; to mend it: correct it\n" in said


def test_a_cut_of_which_nothing_was_published_is_not_zero_and_no_match(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    live = [reconciliation(MATCH)]
    assert status_of(monkeypatch, Platform(live, cuts=[cut(MATCH)])) == 0
    assert status_of(monkeypatch, Platform(live, cuts=[cut(MATCH, publish={})])) == 1
    assert "NOT PUBLISHED  settlement → warehouse, business date" in capsys.readouterr().out


def test_a_cut_on_its_way_is_no_fault_and_no_match(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    on_its_way = replace(cut(MATCH, publish={}), is_running=True)
    assert status_of(monkeypatch, Platform([reconciliation(MATCH)], cuts=[on_its_way])) == 0
    assert "RUNNING  " in capsys.readouterr().out
    broken = replace(cut(BREAK, publish={}), is_running=True)
    assert status_of(monkeypatch, Platform([reconciliation(MATCH)], cuts=[broken])) == 1


def test_an_older_date_counts_in_the_headline_until_somebody_signs_it_or_it_leaves_the_window(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def days_ago(days: int, *tables: TableVerdict, **result: Any) -> CutState:
        return cut(*tables, day=TODAY - timedelta(days=days), **result)

    signed = Decision(DecisionState.APPROVED, "", who="olga", reason="known").to_json()
    clean = [days_ago(days, MATCH) for days in range(headline.DATES)]
    for days, result, word in (
        (1, {}, "BREAK"),
        (1, {"publish": {}, "decision": signed}, "BREAK"),
        (1, {"decision": signed}, "MATCH"),
        (headline.DATES, {}, "MATCH"),
        (0, {"decision": signed}, "BREAK"),
    ):
        broken = days_ago(days, BREAK, **result)
        cuts = [one for one in clean if one.business_date != broken.business_date]
        assert status_of(monkeypatch, Platform([reconciliation(MATCH)], cuts=[*cuts, broken])) == (word != "MATCH")
        assert f"settlement: enabled, {word}\n" in capsys.readouterr().out


def test_a_sync_that_was_not_reconciled_yet_is_not_red(monkeypatch: pytest.MonkeyPatch) -> None:
    assert status_of(monkeypatch, Platform([], state=None)) == 0


def test_a_wrong_declaration_is_reported_and_hides_no_verdict(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder = write_declarations(tmp_path, {"syncs/treasury.yaml": "sync: treasury\n"})
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(folder))
    assert status_of(monkeypatch, Platform([reconciliation(MATCH)])) == 1
    said = capsys.readouterr().out
    assert "settlement: enabled" in said
    assert "MATCH" in said
    assert "treasury.yaml:1  source: is missing" in said


def test_an_open_alarm_is_not_zero(monkeypatch: pytest.MonkeyPatch) -> None:
    late = alarm("verdict_late", "settlement 2026-11-20", "no verdict yet")
    assert status_of(monkeypatch, Platform([reconciliation(MATCH)], alarms=(late,))) == 1


def alarm(kind: str, subject: str, message: str) -> Alarm:
    return Alarm(kind, subject, message, MOMENT)


def test_of_a_stream_that_spoke_again_status_says_that_its_alarm_is_over(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform([reconciliation(MATCH)], alarms=(alarm("stream_silent", str(STREAM), "no word for 70 s"),))
    for age_s, code, said in ((2.0, 0, "is over"), (80.0, 1, "no word for 70 s")):
        assert status_of(monkeypatch, platform, streams=[replace(STREAMING, age_s=age_s)], wanted=[WANTED]) == code
        assert said in capsys.readouterr().out


def test_a_stream_that_failed_was_not_heard_or_is_paused_is_not_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    platform = Platform([reconciliation(MATCH)])
    by_olga = replace(WANTED, paused=True, paused_by="olga", paused_at=MOMENT, pause_reason="maintenance")
    for report, wanted, code, said in (
        (STREAMING, WANTED, 0, "streaming, lag 0.0 s"),
        (replace(STREAMING, state="failed", error="torn unit"), WANTED, 1, "torn unit"),
        (replace(STREAMING, age_s=44.0), WANTED, 1, "unknown since"),
        (
            replace(STREAMING, state="paused", log_end_offset=36_437, lag_s=51.0),
            by_olga,
            1,
            "holds back 36,437 records",
        ),
        (replace(STREAMING, state="starting"), WANTED, 0, "starting"),
    ):
        assert status_of(monkeypatch, platform, streams=[report], wanted=[wanted]) == code
        text = capsys.readouterr().out
        assert said in text
        if wanted.paused:
            assert "paused since 2026-11-21 09:02:03 +08:00" in text and "by olga, “maintenance”" in text


def test_beside_a_dead_capture_no_lag_is_reported(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    dead = alarm(CAPTURE_FAILED, sync_plan().source.name, "the connector failed")
    platform = Platform([reconciliation(MATCH)], alarms=(dead,))
    assert status_of(monkeypatch, platform, streams=[STREAMING], wanted=[WANTED]) == 1
    text = capsys.readouterr().out
    assert "capture down since 2026-11-21 09:02:03 +08:00, lag unknown: the connector failed" in text
    assert "streaming" not in text


def test_destinations_stand_in_the_order_of_the_declaration_whichever_was_compared_last(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`settlement` is declared with warehouse, then archive; the one that was compared last stood on top."""
    names = ("gone", "archive", "warehouse")
    found = [replace(reconciliation(MATCH), destination=name, run_id=name) for name in names]
    days = (TODAY, TODAY - timedelta(days=1))
    cuts = [replace(cut(MATCH, day=day), destination=name, run_id=f"{day}") for day in days for name in names]
    reports = [replace(STREAMING, stream=StreamId("settlement", name)) for name in names]
    wanted = [replace(WANTED, stream=one.stream) for one in reports]
    status_of(monkeypatch, Platform(found, cuts=cuts), streams=reports, wanted=wanted)
    lines = capsys.readouterr().out.splitlines()
    shown = [name for line in lines for name in names if f"settlement → {name}," in line or f"@{name}:" in line]
    assert shown == ["warehouse", "archive", "gone"] * 4


def test_what_goes_on_and_what_waits_for_its_first_load_stand_above_the_verdicts_of_before(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Old verdicts stood alone for minutes, and of a destination that was declared nothing was said."""
    plan = sync_plan()
    archive = replace(plan.destinations[0], name="archive")
    running = [
        Run(kind, "settlement", kind, None, into, RunState.RUNNING, started_at=MOMENT)
        for kind, into in ((RunKind.ONBOARD, replace(plan, destinations=(archive,))), (RunKind.RECONCILE, plan))
    ]
    platform = Platform([reconciliation(MATCH)], onboarded=("warehouse",))
    since = "since 2026-11-21 09:02:03 +08:00"
    missing = "NOT_RUN        settlement → archive, not onboarded yet"
    failed = "FAILED         onboarding into archive: see its run in Airflow (onboard)"
    for runs, word, lines in (
        (running, "MATCH", [f"RUNNING        onboarding into archive {since}",
                            f"RUNNING        comparison of the live tables in warehouse {since}", missing]),
        ([replace(one, state=RunState.FAILED) for one in running], "FAILED",
         [failed, f"{missing}; run settlement__onboard"]),
    ):  # fmt: skip
        platform.runs = runs
        assert status_of(monkeypatch, platform) == (word == "FAILED"), "what is on its way is no fault"
        said = capsys.readouterr().out.split(f"settlement: enabled, {word}\n")[1].splitlines()
        assert said[: len(lines) + 1] == [*lines, "MATCH          settlement → warehouse, live tables"]
    platform.runs, platform.onboarded = [], ("archive", "warehouse")
    assert status_of(monkeypatch, platform) == 0
    assert "not onboarded" not in capsys.readouterr().out


def test_an_unknown_sync_is_refused_with_the_name_that_was_meant(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(monkeypatch, Platform([], state=None), "settlemnt") == 2
    assert "Did you mean `settlement`?" in capsys.readouterr().err


def test_values_of_sensitive_columns_are_masked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """They were not: the page and `report` masked them, and this command did not."""
    sync = SYNC.replace("  - account\n", "  - {name: account, sensitive: [owner]}\n")
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path, {"syncs/settlement.yaml": sync})))
    differs = Break("account", BreakType.VALUE, '{"id": 7}', {"owner": "Li Wei"}, {"owner": "Li Wai"})
    broken = replace(BREAK, breaks=(differs,))
    for given in ((), ("--json",)):
        assert status_of(monkeypatch, Platform([reconciliation(broken)]), *given) == 1
        said = capsys.readouterr().out
        assert "Li W" not in said and MASK in said


def test_as_json_it_has_the_verdicts_the_streams_and_the_alarms(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    late = alarm("verdict_late", "settlement 2026-11-20", "no verdict yet")
    platform = Platform([reconciliation(BREAK)], alarms=(late,))
    assert status_of(monkeypatch, platform, "--json", streams=[STREAMING], wanted=[WANTED]) == 1
    found = json.loads(capsys.readouterr().out)
    (sync,) = (one for one in found["syncs"] if one["sync"] == "settlement")
    assert (sync["word"], sync["is_wrong"], sync["verdicts"][0]["verdict"]) == ("BREAK", True, "BREAK")
    shown = [(one["destination"], one["word"], one["lag_s"]) for one in sync["streams"]]
    assert shown == [("warehouse", "streaming", 0)]
    assert [(one["kind"], one["is_over"]) for one in found["alarms"]] == [("verdict_late", False)]


def test_an_alarm_about_a_source_is_in_the_zone_of_its_syncs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of an alarm like `catch_up`, which is about a source, the moment stood in UTC beside all others."""
    alarm = Alarm("catch_up", sync_plan().source.name, "it will not make it", MOMENT)
    assert status_of(monkeypatch, Platform([reconciliation(MATCH)], alarms=(alarm,)), wanted=[WANTED]) == 1
    assert "since 2026-11-21 09:02:03 +08:00: it will not make it" in capsys.readouterr().out
    status_of(monkeypatch, Platform([reconciliation(MATCH)], alarms=(alarm,)), "--json", wanted=[WANTED])
    assert json.loads(capsys.readouterr().out)["alarms"][0]["since"] == "2026-11-21T09:02:03+08:00"
    other = replace(alarm, subject="another source")
    status_of(monkeypatch, Platform([reconciliation(MATCH)], alarms=(other,)), wanted=[WANTED])
    assert "since 2026-11-21 01:02:03 +00:00" in capsys.readouterr().out
