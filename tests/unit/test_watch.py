"""`status --watch`: what it shows, that it draws only on a terminal, and how it ends."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from seamline.adapters.airflow_rest import DagRun, TaskState
from seamline.cli import watch
from seamline.cli.main import main
from seamline.cli.seen import Seen, Streams, SyncSeen
from seamline.cli.watch_text import Watched, clipped, lines, sparkline
from seamline.domain.cut_state import Headline
from seamline.domain.day_closed import WaitsForInput
from seamline.domain.decision import Decision
from seamline.domain.errors import TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.work_under_way import WorkUnderWay
from seamline.sync.missing import Missing
from seamline.sync.stream_state import StreamState, Word
from seamline.sync.under_way import Note
from tests.unit.reported import MATCH, TODAY, cut
from tests.unit.test_sign_off import PREPARED

NOW = datetime(2026, 11, 29, 12, 0, tzinfo=UTC)
STREAM = StreamId("settlement", "warehouse")
NIGHT = WorkUnderWay(
    "settlement__nightly",
    "r",
    "2026-11-28",
    NOW - timedelta(minutes=4),
    ["success", "success", "running", "scheduled"],
    [timedelta(minutes=minutes) for minutes in (8, 10, 30)],
)
SYNC = SyncSeen(
    "settlement",
    "enabled",
    "MATCH",
    ZoneInfo("Asia/Shanghai"),
    (),
    (),
    (StreamState(STREAM, Word.STREAMING, lag_s=0.3),),
    (),
    (),
    None,
)


def watched(*syncs: SyncSeen, **how: Any) -> Watched:
    streams = Streams((), {}, {}, (), ())
    return replace(Watched(NOW, "6 programs run", Seen(streams, syncs or (SYNC,)), {}, ()), **how)


def test_a_line_has_a_sign_per_minute_and_a_gap_where_nothing_was_reported() -> None:
    assert sparkline([0.0, None, 7.0, 3.5]) == "▁ █▅"
    assert sparkline([0.1, 0.2]) == "▂▂", "a tenth of a second is no mountain"
    assert sparkline([]) == sparkline([None]).strip() == ""


def test_running_work_says_how_far_it_is_and_how_long_it_may_take() -> None:
    assert NIGHT.in_words(NOW) == "settlement__nightly 2026-11-28: 50 %, for 4 min, about 6 min left"
    late = replace(NIGHT, started_at=NOW - timedelta(minutes=12))
    assert late.in_words(NOW).endswith("for 12 min, longer than the usual 10 min")
    assert replace(NIGHT, lengths=(), tasks=()).in_words(NOW).endswith("11-28: for 4 min, none has ended before")
    assert replace(NIGHT, started_at=None).in_words(NOW).endswith("11-28: waits until Airflow begins it")


def test_a_look_shows_streams_work_and_who_waits_for_whom() -> None:
    asked = replace(cut(MATCH), decision=Decision.asked(["ann"]), is_running=True)
    no_day = replace(cut(MATCH), is_running=True, input=WaitsForInput("the flag file", NOW, None))
    signed = replace(PREPARED, business_date=TODAY)
    notes = (Note(Headline.NOT_RUN, "settlement → archive, not onboarded yet"),)
    unknown = Missing("settlement", "lake", TODAY, "INCONCLUSIVE", "its stream has ended", "restart it")
    late = replace(unknown, word="RUNNING", why="it is under way")
    sync = replace(SYNC, cuts=(asked, no_day), sign_offs=(signed, signed), notes=notes, missing=(unknown, late))
    breaks = [SimpleNamespace(sync="settlement", work=SimpleNamespace(owner=owner)) for owner in ("bob", "bob", "")]
    queued = [replace(NIGHT, started_at=None, about=f"2026-11-0{day}") for day in range(1, 6)]
    lags = {STREAM: (0.1, None, 5.0)}
    said = "\n".join(lines(watched(sync, lags=lags, work=[NIGHT, *queued], breaks=breaks)))
    assert "  warehouse  streaming       lag 0.3 s     ▁ █" in said
    assert "  settlement__nightly 2026-11-28: 50 %" in said and "  and 2 more wait until Airflow begins them" in said
    for waits in (
        "settlement 2026-11-21 → warehouse: waits for ann since",
        "settlement 2026-11-21 → warehouse: waits for the flag file since 2026-11-29 20:00:00 +08:00",
        "settlement: 2 published cuts wait for a signature, since business date 2026-11-21",
        "settlement: settlement → archive, not onboarded yet",
        "settlement 2026-11-21 → lake: INCONCLUSIVE, its stream has ended; restart it",
        "settlement: 2 open breaks wait for bob",
        "settlement: 1 open break waits for an owner",
    ):
        assert waits in said
    assert "it is under way" not in said
    assert "nothing runs" in "\n".join(lines(watched())) and "nobody waits" in "\n".join(lines(watched()))
    assert "  not known: no answer" in lines(watched(work=None, why_no_work="no answer"))


def test_no_name_moves_the_cursor_and_no_line_is_wider_than_the_terminal() -> None:
    hostile = replace(SYNC, name="bank\x1b[2J")
    assert not any("\x1b" in line for line in lines(watched(hostile)))
    assert (clipped("支付 table", 5), clipped("abc", 5)) == ("支付 ", "abc")


class Airflow:
    def runs_under_way(self) -> list[DagRun]:
        began = "2026-11-29T11:00:00Z"
        of = (
            "settlement__nightly",
            "settlement__stream",
            "seamline__streams",
            "other__nightly",
            "seamline__maintenance",
        )
        return [DagRun(dag_id, "r", "running", None, {}, started_at=began) for dag_id in of]

    def lengths(self, _: str) -> list[timedelta]:
        return []

    def tasks(self, *_: str) -> list[TaskState]:
        return [TaskState("cut", "running", 1)]


def test_what_only_watches_all_day_is_no_work_and_what_does_not_answer_is_said() -> None:
    found, _ = watch._under_way(Airflow(), ["settlement"])  # type: ignore[arg-type] # noqa: SLF001
    assert found and [one.dag_id for one in found] == ["settlement__nightly", "seamline__maintenance"]
    assert watch._under_way("no address", ["settlement"]) == (None, "no address")  # noqa: SLF001


@pytest.mark.parametrize("is_terminal", [True, False])
def test_it_draws_on_a_terminal_alone_and_ctrl_c_ends_it_with_the_code_of_the_last_look(
    is_terminal: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    looks: list[str] = []

    def sleep(_: float) -> None:
        looks.append("one")
        if len(looks) == 2:
            raise KeyboardInterrupt

    def away(*_: object) -> None:
        raise TransientError("the platform database does not answer", hint="look at it")

    monkeypatch.setattr("sys.stdout.isatty", lambda: is_terminal)
    monkeypatch.setattr(watch.time, "sleep", sleep)
    monkeypatch.setattr(watch.seen, "look", away)
    assert main(["status", "--watch"]) == TransientError.exit_code
    said = capsys.readouterr().out
    assert said.count("the platform database does not answer") == 2
    assert ("\x1b" in said) == is_terminal
    assert said.endswith("\x1b[?1049l") == is_terminal, "what stood there before stands there again"
