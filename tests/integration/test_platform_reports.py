"""What pages and `status` ask the platform database for."""

import csv
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from seamline.cli import report
from seamline.cli.main import main
from seamline.domain.cut_state import Headline, of_live
from seamline.domain.ledger import StreamId
from seamline.domain.runs import KEPT, TOOK_NOTHING, Cut, Reconciliation, Scope
from seamline.domain.verdict import ControlTotal, TableVerdict, Verdict
from seamline.plan.document import plan_to_json
from seamline.platform.database import Database
from seamline.platform.reconciliations import Detail
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector, put_report
from seamline.platform.tolerances import PlatformTolerances
from seamline.platform.totals import Series
from seamline.platform.work import PlatformWork
from seamline.ports import StreamReport
from seamline.sync.shown_order import newest_of_date
from tests.integration.platform_database import Server
from tests.integration.test_platform import POSITION, plan, reconciliation, start_run
from tests.integration.test_platform import migrated as migrated
from tests.integration.test_platform import server as server
from tests.integration.test_platform import store as store
from tests.unit.declared import write_declarations


def saved(store: PlatformStore, run_id: str, scope: Scope, hour: int, **rest: Any) -> Reconciliation:
    at = datetime(2026, 3, 2, hour, tzinfo=UTC)
    one = replace(reconciliation(), run_id=run_id, scope=scope, started_at=at, **rest)
    store.save_reconciliation(one)
    return one


def test_the_newest_evidence_with_a_key_is_found_whatever_number_it_holds(store: PlatformStore) -> None:
    """Its numbers may be smaller than earlier ones: a backup was put back in between."""
    live = [
        saved(store, f"settlement/reconcile/-/live_{hour}", Scope.LIVE, hour, evidence=evidence)
        for hour, evidence in ((3, {"through": 12}), (4, {"through": 3}), (5, {}))
    ]
    saved(store, "settlement/nightly/2026-03-01/a_run", Scope.CUT, 6, evidence={"through": 99})
    assert store.live_reconciliations("settlement", 2) == (live[2], live[1])
    assert store.live_reconciliations("settlement", 2, before=live[2].started_at) == (live[1], live[0])
    for run, destination, evidence in (
        ("", "warehouse", {"through": 3}),
        (live[1].run_id, "warehouse", {"through": 12}),
        ("", "elsewhere", {}),
    ):
        found = store.newest_evidence("settlement", destination, "live", key="through", but_of_run=run)
        assert found == evidence


def test_a_run_of_airflow_is_found_by_its_name_with_its_repetitions(store: PlatformStore) -> None:
    for run_id in ("s/nightly/2026-03-01/a_run", "s/nightly/2026-03-01/a_run~2", "s/nightly/2026-03-01/not_a_run"):
        start_run(store, run_id)
    for name, wanted in (("a_run", ["a_run~2", "a_run"]), ("a_run~2", ["a_run~2"]), ("run", []), ("a_ru_", [])):
        found = [run.run_id.rpartition("/")[2] for run in store.runs_named("settlement", name)]
        assert found == wanted
    assert store.runs_named("other", "a_run") == ()


def test_a_comparison_of_live_tables_is_found_by_its_date_and_its_run_s_name_though_its_run_is_gone(
    store: PlatformStore,
) -> None:
    day, path = date(2025, 3, 1), "settlement/reconcile/2025-03-01"
    first = saved(store, f"{path}/a_run", Scope.LIVE, 3, business_date=day)
    again = saved(store, f"{path}/a_run~2", Scope.LIVE, 4, business_date=day)
    saved(store, f"{path}/other", Scope.LIVE, 2, business_date=date(2025, 3, 2))
    saved(store, "settlement/nightly/2025-03-01/a_run", Scope.CUT, 1, business_date=day)
    assert store.live_reconciliations_after_cut("settlement", day) == (again, first)
    assert store.live_reconciliations_named("settlement", "a_run") == (again, first)
    assert store.live_reconciliations_named("other", "a_run") == ()


def test_the_state_of_a_date_is_that_of_its_newest_take_and_names_the_version_in_force(store: PlatformStore) -> None:
    passed = {"verdict": "MATCH", "checked": 3, "failed": []}
    day, fields = date(2026, 3, 1), {"business_date": date(2026, 3, 1)}
    for run_id in ("first", "second"):
        start_run(store, run_id)
        store.put_result(run_id, "expectations", passed)
    saved(store, "first", Scope.CUT, 1, **fields)
    as_of = datetime(2026, 3, 2, tzinfo=UTC)
    store.save_cut(Cut("settlement", "warehouse", day, 1, "first", POSITION, as_of, ("account",), Verdict.MATCH))
    store.finish_run("first", state="succeeded")
    store.put_result("second", "failure", {"task": "cut", "error": "gone", "cure": "", "at": as_of.isoformat()})
    (newest,) = store.cut_states("settlement", 5)
    assert (newest.run_id, newest.headline, newest.publication.in_force) == ("second", Headline.NOT_RUN, 1)
    takes = store.takes("settlement", day)
    assert [(one.run_id, one.publication.version) for one in takes] == [("second", None), ("first", 1)]
    assert takes[1].compared is reconciliation().verdict
    assert takes[1].publication.at is not None
    assert store.cut_states("settlement", 5, before=day) == ()
    # One that is taken up again is the newest once more.
    start_run(store, "first")
    (newest,) = store.cut_states("settlement", 5)
    assert newest.run_id == "first"


def test_a_run_that_takes_nothing_leaves_its_date_to_the_run_whose_cut_stays_in_force(store: PlatformStore) -> None:
    """It was NOT_RUN beside a version in force, because a second run had found the same delivery."""
    (one,) = plan().destinations
    document = plan_to_json(replace(plan(), destinations=(one, replace(one, name="archive"))))
    day, as_of = date(2026, 3, 1), datetime(2026, 3, 2, tzinfo=UTC)

    def begin(run_id: str, *kept: str, publishes: str) -> None:
        store.start_run(run_id=run_id, sync="settlement", kind="nightly", plan_json=document, business_date=day)
        store.put_result(run_id, KEPT, {name: {"run": "first", "version": 1, "why": "taken"} for name in kept})
        store.put_result(run_id, TOOK_NOTHING, not publishes)
        if publishes:
            saved(store, run_id, Scope.CUT, 1, business_date=day, destination=publishes)
            made = Cut("settlement", publishes, day, 1, run_id, POSITION, as_of, ("account",), Verdict.MATCH)
            store.save_cut(made)
        store.finish_run(run_id, state="succeeded")

    def shown() -> list[set[tuple[str, str]]]:
        lists = (store.cut_states("settlement", 5), store.states_of_dates("settlement", [day]))
        return [{(state.run_id, state.destination) for state in states} for states in lists]

    begin("first", publishes="warehouse")
    assert shown() == [{("first", "warehouse"), ("first", "archive")}] * 2
    begin("second", "warehouse", publishes="archive")
    assert shown() == [{("first", "warehouse"), ("second", "archive")}] * 2
    begin("third", "warehouse", "archive", publishes="")
    assert shown() == [{("first", "warehouse"), ("second", "archive")}] * 2
    newest = store.newest_night("settlement", day)
    assert newest is not None and newest.run_id == "second"
    takes = [(state.run_id, state.destination) for state in store.takes("settlement", day)]
    assert takes == [("second", "archive"), ("first", "warehouse"), ("first", "archive")]
    both = newest_of_date(store.takes("settlement", day), ["warehouse", "archive"])
    assert [(state.run_id, state.destination) for state in both] == [("first", "warehouse"), ("second", "archive")]


def test_a_comparison_of_live_tables_that_failed_is_the_newest_and_has_not_run(store: PlatformStore) -> None:
    """What stands below it was found before, and said MATCH for as long as every later one failed."""
    before = saved(store, "settlement/reconcile/-/before", Scope.LIVE, 3)
    start_run(store, "failed", "reconcile")
    assert store.live_reconciliations("settlement", 5) == (before,), "it is on its way"
    failure = {"task": "compare", "error": "the driver was lost", "cure": "x", "at": "2026-03-02T04:00:00+00:00"}
    store.put_result("failed", "failure", failure)
    newest, other = store.live_reconciliations("settlement", 5)
    assert (newest.run_id, newest.destination, newest.scope) == ("failed", "warehouse", Scope.LIVE)
    assert (of_live(newest), newest.evidence["failure"], other) == (Headline.NOT_RUN, failure, before)
    assert store.live_reconciliations_of("settlement", "failed") == (newest,)
    assert store.live_reconciliations_of("settlement", before.run_id) == (before,)
    one = saved(store, "failed", Scope.LIVE, 4)
    assert store.live_reconciliations("settlement", 5) == (one, before), "it had compared them"


def test_a_comparison_that_failed_is_forgotten_once_the_tables_were_compared(store: PlatformStore) -> None:
    start_run(store, "failed", "reconcile")
    store.put_result("failed", "failure", {"task": "compare", "error": "x", "at": "2026-03-02T04:00:00+00:00"})
    later = replace(reconciliation(), run_id="later", scope=Scope.LIVE, started_at=datetime.now(UTC))
    store.save_reconciliation(later)
    assert store.live_reconciliations("settlement", 5) == (later,)


def test_an_onboarding_that_failed_before_anything_was_compared_says_so_where_the_comparison_would_stand(
    store: PlatformStore,
) -> None:
    """`status` said only that nothing was reconciled yet, and ended with 0."""
    start_run(store, "first", "onboard")
    failure = {"task": "snapshot", "error": "the source is away", "cure": "x", "at": "2026-03-02T04:00:00+00:00"}
    store.put_result("first", "failure", failure)
    (failed,) = store.live_reconciliations("settlement", 5)
    assert (failed.run_id, of_live(failed), failed.evidence["failure"]) == ("first", Headline.NOT_RUN, failure)
    live = saved(store, "settlement/reconcile/-/before", Scope.LIVE, 3)
    assert store.live_reconciliations("settlement", 5) == (live,), "the live tables are what they were"


def test_a_report_is_read_as_far_as_it_is_shown_and_always_with_the_number_of_its_breaks(store: PlatformStore) -> None:
    day = date(2026, 3, 1)
    start_run(store, "first")
    whole = saved(store, "first", Scope.CUT, 1, business_date=day).tables[0]
    live = saved(store, "settlement/reconcile/-/now", Scope.LIVE, 2, business_date=day)
    for detail, totals, breaks in (
        (Detail.VERDICTS, (), ()),
        (Detail.TOTALS, whole.totals, ()),
        (Detail.WHOLE, whole.totals, whole.breaks),
    ):
        read = replace(whole, totals=totals, breaks=breaks)
        (cut,) = store.cut_states("settlement", 5, detail=detail)
        assert store.takes("settlement", day, detail=detail) == (cut,)
        assert cut.found is not None
        assert cut.found.tables[0] == read
        for found in (
            store.live_reconciliations("settlement", 5, detail=detail),
            store.live_reconciliations_after_cut("settlement", day, detail=detail),
        ):
            assert [(one.run_id, one.tables[0]) for one in found] == [(live.run_id, read)]


def test_the_report_of_a_date_is_written_from_what_the_platform_keeps(
    store: PlatformStore, server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    day = date(2026, 3, 1)
    # The log of acts outlives the other tests of this database: a run of its own.
    start_run(store, "written")
    saved(store, "written", Scope.CUT, 1, business_date=day)
    store.put_result("written", "expectations", {"verdict": "MATCH", "checked": 3, "failed": []})
    monkeypatch.setattr(report.registry, "platform", lambda: PlatformStore(Database(server.open)))
    monkeypatch.setattr(report.registry, "tolerances", lambda: PlatformTolerances(Database(server.open)))
    monkeypatch.setattr(report.registry, "work", lambda: PlatformWork(Database(server.open)))
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(write_declarations(tmp_path)))
    for kind in ("text", "md", "json", "csv", "xlsx", "pdf"):
        file = tmp_path / f"report.{kind}"
        command = ["report", "settlement", "--date", str(day), "--format", kind, "--output", str(file)]
        assert main(command) == 1, "it is a break, and not published"
        assert file.stat().st_size > 0
    text = (tmp_path / "report.text").read_text()
    assert text.startswith("BREAK  settlement, 2026-03-01\n")
    assert "12.3400" in text and "-0.0100" in text, "a sum keeps its digits, and so does its difference"
    (row, *_) = csv.DictReader((tmp_path / "report.csv").read_text().splitlines())
    assert (row["source_sum"], row["destination_sum"], row["difference"]) == ("12.3400", "12.3300", "-0.0100")


# ---- over time -----------------------------------------------------------------------------------------------------


def test_the_worst_lag_of_each_step_is_kept_and_a_step_without_a_report_is_a_gap(server: Server) -> None:
    stream = StreamId("settlement", "warehouse")
    database = Database(server.open)
    director = PlatformStreamDirector(database)
    assert director.lags(steps=4, step_s=900) == {}
    for state, epoch, lag_s in (
        ("streaming", 3, 2.5),
        ("streaming", 3, 0.2),
        ("starting", 0, 99.0),
        ("failed", 3, 99.0),
    ):
        one = StreamReport(stream, state, epoch=epoch, lag_s=lag_s)
        database.transact(lambda session, one=one: put_report(session, one))
    assert director.lags(steps=2, step_s=3600) == {stream: (None, 2.5)}
    with server.open() as session:
        session.execute(
            "insert into stream_lag select 'settlement', 'warehouse', now() - age, lag_s from (values"
            " (interval '31 minutes', 7.0), (interval '40 minutes', 8.0), (interval '3 days', 9.0))"
            " as earlier (age, lag_s)"
        )
    whole = {stream: (None, 8.0, None, 2.5)}
    assert director.lags(steps=4, step_s=900) == whole == director.lags("settlement", steps=4, step_s=900)
    assert director.lags("payroll", steps=4, step_s=900) == {}


def test_what_is_known_of_a_lag_ends_after_two_days(server: Server) -> None:
    stream = StreamId("settlement", "warehouse")
    with server.open() as session:
        session.execute(
            "insert into stream_lag select 'settlement', 'warehouse', now() - age, 1 from"
            " unnest(array[interval '49 hours', interval '47 hours']) as age"
        )
    Database(server.open).transact(lambda session: put_report(session, StreamReport(stream, "held", epoch=1)))
    with server.open() as session:
        kept = session.execute("select now() - minute > '2 days' from stream_lag order by minute").fetchall()
    assert kept == [(False,), (False,)]


def test_control_totals_are_read_over_the_cuts_that_are_drawn(store: PlatformStore) -> None:
    runs = [f"settlement/nightly/2026-03-0{day}/a_run" for day in (1, 2, 3)]
    for run_id, amounts in zip(runs, (("5.5",), (), ("-1", "2", "0.25")), strict=True):
        totals = tuple(
            ControlTotal("ledger_entry", "amount", (f"C{number}",), 2, 2, Decimal(9), Decimal(amount))
            for number, amount in enumerate(amounts)
        )
        table = TableVerdict("ledger_entry", Verdict.MATCH, "", "0-1-1", 2, 2, totals=totals)
        counted = ControlTotal("daily_balance", "", (), 3, 3)
        derived = TableVerdict("daily_balance", Verdict.MATCH, "", "0-1-1", 3, 3, totals=(counted,))
        saved(store, run_id, Scope.CUT, 6, tables=(table, derived))
        saved(store, run_id, Scope.LIVE, 7, tables=(table,))
    cuts = [(run_id, "warehouse") for run_id in runs]
    first, *rest = store.totals_over("settlement", cuts)
    assert first == Series("ledger_entry", "amount", ("C0",), (Decimal("5.5"), None, Decimal(-1)))
    *summed, counted = rest
    assert [one.sums for one in summed] == [(None, None, Decimal(2)), (None, None, Decimal("0.25"))]
    assert counted == Series("daily_balance", "", (), (Decimal(3),) * 3), "a total without a column counts rows"
    assert len(store.totals_over("settlement", cuts[:2])) == 1 and store.totals_over("payroll", cuts) == ()


def test_cuts_are_listed_with_their_rows_and_a_date_that_has_expired_is_not_missing(store: PlatformStore) -> None:
    """By every reason: a run that published, one that did not, and a cut that is off the list."""
    days = {number: date(2026, 3, number) for number in (2, 3, 4)}
    for number, day in days.items():
        run_id = f"settlement/nightly/{day}/night_{number}"
        plan_json = plan_to_json(plan())
        store.start_run(run_id=run_id, sync="settlement", kind="nightly", plan_json=plan_json, business_date=day)
        store.put_result(run_id, "cut", {"warehouse": {"tables": [{"rows": 3}, {"rows": 4}]}})
        if number != 3:
            store.put_result(run_id, "publish", {"warehouse": 1})
    run_id = f"settlement/nightly/{days[4]}/night_4"
    saved(store, run_id, Scope.CUT, 5, business_date=days[4], mode="read")
    at = datetime(2026, 3, 5, tzinfo=UTC)
    store.save_cut(Cut("settlement", "warehouse", days[4], 1, run_id, POSITION, at, ("account",), Verdict.MATCH))
    (one,) = store.published_cuts("settlement")
    assert (one.cut.business_date, one.mode, one.rows) == (days[4], "read", 7)
    assert store.published_dates("settlement") == {"warehouse": frozenset({days[2], days[4]})}
    newest = store.newest_night("settlement", days[3])
    assert newest is not None
    assert newest.run_id.endswith("night_3")
    assert store.newest_night("settlement", date(2026, 3, 9)) is None
    states = store.states_of_dates("settlement", [days[3], days[4]])
    assert [(one.business_date, one.destination) for one in states] == [(days[4], "warehouse"), (days[3], "warehouse")]
