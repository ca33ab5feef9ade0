"""What a backfill has come to, how far it is and what its exit code says."""

import json
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from seamline.adapters.airflow_rest import FINISHED, Backfill, DagRun
from seamline.cli import backfill, cut, in_airflow
from seamline.cli.answer import answered
from seamline.cli.main import parser_of
from seamline.domain.backfill import DateRun, Exit, Progress, with_cuts
from seamline.domain.cut_state import Headline
from seamline.domain.duration import duration
from seamline.domain.errors import ConfigError, Refused, TransientError
from tests.dags import results

BEGAN = datetime(2026, 11, 20, 2, tzinfo=UTC)
PLAN = results.plan()


def _date(day: int, *, state: str = "success", found: Headline | None = Headline.MATCH, minutes: int = 0) -> DateRun:
    began = BEGAN + timedelta(minutes=minutes)
    ended = began + timedelta(minutes=10) if state in ("success", "failed") else None
    return DateRun(
        date(2026, 11, day), f"backfill__{day}", state, found, 1, began if state != "queued" else None, ended
    )


WAITS = _date(9, state="queued", found=None)


@pytest.mark.parametrize(
    ("dates", "code"),
    [
        ([_date(1), _date(2, found=Headline.PARTIAL)], Exit.PROVEN),
        ([_date(1), _date(2, found=Headline.BREAK), WAITS], Exit.BREAK),
        ([_date(1), _date(2, found=Headline.CHECKS_FAILED)], Exit.BREAK),
        ([_date(1), WAITS], Exit.NOT_PROVEN),
        ([_date(1), _date(2, found=Headline.INCONCLUSIVE)], Exit.NOT_PROVEN),
        ([_date(1), _date(2, state="failed")], Exit.NOT_PROVEN),
        ([_date(1), _date(2, found=None)], Exit.NOT_PROVEN),
        ([], Exit.NOT_PROVEN),
    ],
)
def test_the_exit_code_is_0_only_where_every_date_is_proven(dates: list[DateRun], code: Exit) -> None:
    assert Progress(tuple(dates), is_over=True).exit_code is code


def test_the_time_that_is_left_goes_by_the_pace_so_far() -> None:
    seen = Progress((_date(1), _date(2, minutes=2), _date(3, state="running", found=None, minutes=11), WAITS))
    # Two dates in twelve minutes, side by side; two are left.
    assert seen.remaining == timedelta(minutes=12)
    assert seen.in_words() == "2 of 4 dates (2 MATCH), about 12 min left"
    assert replace(seen, is_paused=True).remaining is None
    assert Progress((WAITS,)).remaining is None
    assert [duration(timedelta(seconds=one)) for one in (40, 720, 12_000)] == ["40 s", "12 min", "3 h 20 min"]


def test_an_older_cut_says_nothing_of_a_date_that_is_still_being_made() -> None:
    older = SimpleNamespace(headline=Headline.BREAK, publication=SimpleNamespace(in_force=1))
    assert with_cuts(WAITS, [older]) == WAITS  # type: ignore[list-item]
    done = with_cuts(_date(1, found=None), [older, replace_version(older, 3)])  # type: ignore[list-item]
    assert (done.found, done.version) == (Headline.BREAK, 1)


def replace_version(one: Any, version: int) -> Any:
    return SimpleNamespace(headline=Headline.MATCH, publication=SimpleNamespace(in_force=version))


class Airflow:
    """Its REST, as far as these commands ask it."""

    def __init__(self) -> None:
        self.made: dict[str, Any] = {}
        self.known: list[Backfill] = []
        # How often Airflow still says that the newest one goes on.
        self.open_looks = 0
        self.runs: dict[str, DagRun] = {}
        self.notes: list[str] = []
        self.orders: list[str] = []
        self.paused = False
        self.signed: set[date] = set()
        self.restated: list[dict[str, Any]] = []

    def is_paused(self, dag_id: str) -> bool:
        return self.paused

    def dates_of(self, dag_id: str, *, first: date, last: date) -> list[date]:
        days = [first + timedelta(days=number) for number in range((last - first).days + 1)]
        # As the dry run of Airflow: not those that have a run under way.
        return [day for day in days if str(day) not in self.runs or self.runs[str(day)].state in FINISHED]

    def backfills(self, dag_id: str) -> list[Backfill]:
        if self.open_looks:
            self.open_looks -= 1
            return [replace(self.known[0], is_over=False), *self.known[1:]]
        return self.known

    def backfill(self, dag_id: str, *, first: date, last: date, **how: Any) -> int:
        self.made = {"first": first, "last": last, **how}
        self.known.insert(0, Backfill(3, dag_id, first, last, is_paused=False, is_over=True, created_at="", at_once=2))
        for day in self.dates_of(dag_id, first=first, last=last):
            self.runs[str(day)] = DagRun(dag_id, f"backfill__{day}", "queued", str(day), {}, run_type="backfill")
        # A scheduler that is quick has begun one before anybody has asked for its runs.
        begun = self.runs[str(first)]
        self.runs[str(first)] = replace(begun, state="running", started_at="2026-11-19T00:00:00Z")
        return 3

    def runs_of(self, dag_id: str, *, first: date, last: date, since: str = "") -> dict[str, DagRun]:
        return self.runs

    def note(self, dag_id: str, run_id: str, text: str) -> None:
        self.notes.append(f"{run_id}: {text}")

    def order(self, number: int, order: str) -> None:
        self.orders.append(f"{number} {order}")

    def trigger(self, dag_id: str, **how: Any) -> None:
        self.made = {"dag_id": dag_id, **how}


class Signatures:
    """Which dates are signed, and what was restated."""

    def __init__(self, of: Airflow) -> None:
        self._of = of

    def is_restatable(self, _sync: str, day: date) -> bool:
        return day in self._of.signed

    def require_restatable(self, _sync: str, _day: date, reason: str) -> None:
        if not reason:
            raise Refused("a restatement needs a reason")

    def enter_restatement(self, sync: str, day: date, **said: Any) -> None:
        self._of.restated.append({"sync": sync, "day": day, **said})

    def close(self) -> None:
        return


@pytest.fixture
def airflow(monkeypatch: pytest.MonkeyPatch) -> Airflow:
    made = Airflow()

    @contextmanager
    def opened() -> Iterator[Airflow]:
        yield made

    monkeypatch.setattr(in_airflow, "airflow", opened)
    monkeypatch.setattr(in_airflow, "plan_of", lambda _: PLAN)
    for module in (in_airflow, cut):
        monkeypatch.setattr(module, "person", lambda: "ann on host")
    store = SimpleNamespace(cut_states=lambda *_, **__: (), takes=lambda *_, **__: (), close=lambda: None)
    monkeypatch.setattr("seamline.registry.platform", lambda: store)
    monkeypatch.setattr("seamline.registry.signatures", lambda: Signatures(made))
    return made


def _run(command: Any, *given: str) -> int:
    args = parser_of(command.__name__.rpartition(".")[2]).parse_args(["settlement", *given])
    with answered(args):
        return int(command.run(args))


def ended_backfill(airflow: Airflow) -> None:
    """Over two dates."""
    first, last = date(2026, 11, 1), date(2026, 11, 2)
    airflow.known = [Backfill(2, "x", first, last, is_paused=False, is_over=True, created_at="", at_once=2)]
    for day in (first, last):
        airflow.runs[str(day)] = DagRun("x", f"earlier__{day}", "success", str(day), {}, run_type="backfill")


def test_a_backfill_over_the_dates_of_one_that_has_ended_waits_until_airflow_closes_that_and_is_a_new_one(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill, "LOOK_EVERY_S", 0.0)
    ended_backfill(airflow)
    airflow.open_looks = 3
    _run(backfill, "2026-11-01", "2026-11-02", "--reason", "month end", "--detach")
    assert airflow.made["last"] == date(2026, 11, 2)
    assert airflow.notes and all(one.endswith("month end") for one in airflow.notes)
    assert "every date of backfill 2 is over" in capsys.readouterr().out


def test_a_backfill_that_airflow_never_closes_is_named(
    airflow: Airflow, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(backfill, "CLOSED_WITHIN_S", -1.0)
    ended_backfill(airflow)
    airflow.open_looks = 3
    assert _run(backfill, "2026-11-01", "2026-11-02") == Exit.NOT_PROVEN
    assert "Airflow has not closed it" in capsys.readouterr().err
    assert airflow.made == {}


def test_a_backfill_keeps_what_is_done_and_says_who_and_why_on_every_run(
    airflow: Airflow, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("2026-11-01", "2026-11-02", "--newest-first", "--reason", "month end", "--json")
    assert _run(backfill, *given) == Exit.NOT_PROVEN
    assert (airflow.made["run_backwards"], airflow.made["max_active_runs"]) == (True, 2)
    assert airflow.made["dag_run_conf"] == {"mode": "publish", "tables": [], "reason": "month end", "keep_done": True}
    note = "Backfill 3, started by ann on host: month end"
    assert airflow.notes == [f"backfill__2026-11-01: {note}", f"backfill__2026-11-02: {note}"]
    said = json.loads(capsys.readouterr().out)
    assert (said["backfill"], said["left"], said["exit_code"]) == (3, 2, 3)
    with pytest.raises(ConfigError, match="2026-11-01 is taken by run backfill__2026-11-01"):
        _run(backfill, "2026-11-01")
    airflow.runs = {day: replace(run, state="success") for day, run in airflow.runs.items()}
    _run(backfill, "2026-11-01", "--again", "--detach")
    assert airflow.made["dag_run_conf"]["keep_done"] is False


@pytest.mark.parametrize(
    ("given", "what"),
    [
        (("2026-11-02", "2026-11-01"), "2026-11-01 comes before 2026-11-02"),
        (("2026-11-01", "2999-01-01"), "business date 2999-01-01 has not ended"),
        (("26/11/2026",), "not a business date"),
        (("2026-11-01", "--at-once", "0"), "dates side by side are from 1 to 30"),
        (("2026-11-01", "--tables", "fees"), "there is no table fees"),
        (("2026-11-01", "--tables", "account"), "only account cannot be published"),
        (("--pause",), "no backfill of settlement goes on"),
        ((), "there was no backfill"),
    ],
)
def test_a_mistake_is_refused_before_a_run_exists(airflow: Airflow, given: tuple[str, ...], what: str) -> None:
    with pytest.raises(ConfigError, match=what) as refused:
        _run(backfill, *given)
    assert refused.value.exit_code == Exit.MISTAKE
    assert (airflow.made, airflow.orders) == ({}, [])


def test_one_that_goes_on_is_followed_paused_continued_and_cancelled(
    airflow: Airflow, capsys: pytest.CaptureFixture[str]
) -> None:
    day = date(2026, 11, 1)
    airflow.known = [
        Backfill(7, "settlement__nightly", day, day, is_paused=False, is_over=False, created_at="", at_once=2)
    ]
    airflow.runs = {str(day): DagRun("d", "backfill__1", "queued", str(day), {}, run_type="backfill")}
    for order in ("--pause", "--continue", "--cancel"):
        assert _run(backfill, order, "--reason", "load") == 0
    assert airflow.orders == ["7 pause", "7 unpause", "7 cancel"]
    assert airflow.notes[-1] == "backfill__1: Backfill 7, cancelled by ann on host: load"
    assert _run(backfill, "2026-11-01", "--detach") == 0
    assert "backfill 7 goes on already" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="backfill 7 of settlement goes on, of 2026-11-01 to 2026-11-01"):
        _run(backfill, "2026-11-05")
    assert airflow.made == {}


def test_a_paused_dag_is_named_before_something_waits_in_it_for_ever(airflow: Airflow) -> None:
    airflow.paused = True
    for command in (backfill, cut):
        with pytest.raises(ConfigError, match="settlement__nightly is paused"):
            _run(command, "2026-11-01")


def test_a_cut_without_a_date_says_which_one_it_takes_before_it_does(
    airflow: Airflow, capsys: pytest.CaptureFixture[str]
) -> None:
    assert _run(cut, "--detach", "--reason", "file was late") == 0
    key = airflow.made["partition_key"]
    assert f"no date was given: taking {key}, the newest that has ended in Asia/Shanghai" in capsys.readouterr().out
    assert airflow.made["note"] == "Started by ann on host: file was late"
    assert airflow.made["conf"]["reason"] == "file was late"


def test_a_cut_of_a_date_that_is_being_made_is_refused_by_name(airflow: Airflow) -> None:
    airflow.runs = {"2026-11-01": DagRun("d", "backfill__1", "running", "2026-11-01", {})}
    with pytest.raises(ConfigError, match="2026-11-01 is taken by run backfill__1"):
        _run(cut, "2026-11-01")
    with pytest.raises(ConfigError, match="has not ended"):
        _run(cut, "2999-01-01")
    assert airflow.made == {}


def test_a_cut_of_a_signed_date_is_a_restatement_with_a_reason(
    airflow: Airflow, capsys: pytest.CaptureFixture[str]
) -> None:
    day = date(2026, 11, 1)
    airflow.signed = {day}
    with pytest.raises(ConfigError, match="a restatement needs a reason"):
        _run(cut, str(day), "--detach")
    assert (airflow.made, airflow.restated) == ({}, [])
    assert _run(cut, str(day), "--detach", "--compare-only") == 0
    assert airflow.restated == []
    assert _run(cut, str(day), "--detach", "--reason", "a file came late") == 0
    assert airflow.restated == [
        {
            "sync": "settlement",
            "day": day,
            "who": "ann on host",
            "reason": "a file came late",
            "run": airflow.made["run_id"],
            "origin": "command line",
        }
    ]
    assert "this run restates it" in capsys.readouterr().out


def test_an_error_on_the_way_is_no_break(capsys: pytest.CaptureFixture[str]) -> None:
    def away(_: object) -> Exit:
        raise TransientError("Airflow is away")

    def refused(_: object) -> Exit:
        raise Refused("not this one", hint="that one")

    args = Namespace(json=True)
    assert in_airflow.with_exit_code(args, away) == Exit.NOT_PROVEN
    assert "Airflow is away" in capsys.readouterr().err
    assert args.document == {"error": {"kind": "TransientError", "message": "Airflow is away"}}
    with pytest.raises(ConfigError, match="not this one"):
        in_airflow.with_exit_code(args, refused)
