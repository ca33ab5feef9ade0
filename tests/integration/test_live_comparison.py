"""The comparison of live tables with everything real: writers, capture, log, stream, barrier, verdicts."""

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from seamline import registry, repairing, settings
from seamline.cli.status_text import is_green
from seamline.domain.baseline import REPEATED
from seamline.domain.errors import Refused
from seamline.domain.repair import Repair, RepairState, RootCause, RowAction, RowState
from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import BreakType, Verdict
from seamline.domain.witness import Moved
from seamline.plan.checks import ReconcilePlan
from seamline.plan.model import ParkedTable
from seamline.platform.database import Database
from tests.conftest import RunningStack
from tests.integration.bank_writers import in_mariadb, writing
from tests.integration.captured import captured
from tests.integration.compared_chain import TABLES, Chain, caught_up, chained, compared_while_writing, listed
from tests.integration.databases import postgres
from tests.waiting import wait_until

NAME = "live_compare_test"


@pytest.fixture(scope="module")
def chain(stack: RunningStack, pytestconfig: pytest.Config) -> Iterator[Chain]:
    with chained(NAME, captured, in_mariadb, by_log=pytestconfig.getoption("mode") == "log") as one:
        yield one


def test_live_tables_match_at_one_position_while_writers_write(chain: Chain, pytestconfig: pytest.Config) -> None:
    count, comparisons = (pytestconfig.getoption(name) for name in ("writers", "comparisons"))
    compared_while_writing(chain, count=count, comparisons=comparisons)
    report = registry.director().latest_report(chain.plan.stream_id("warehouse"))
    assert report is not None
    assert report.records_per_s > 0, "by this the next comparison knows how long a hold it needs"


def test_an_idle_source_is_compared_too(chain: Chain) -> None:
    first, second = chain.compare(), chain.compare()
    assert first.verdict is second.verdict is Verdict.MATCH


def test_a_parked_table_is_reported_and_not_read_and_may_be_gone(chain: Chain) -> None:
    away = (ParkedTable("audit", "loaded again on Monday"), ParkedTable("long_gone", "dropped at the source"))
    plan = replace(chain.plan, tables=chain.plan.tables[:1], parked=away)
    chain.bank.execute("INSERT INTO account VALUES (2000000000, 1, 'one')")
    wait_until(lambda: chain.applied("account") > 0, timeout_s=60, what="a row to arrive")
    caught_up(chain)
    # Out of the way: whoever reads or counts it now meets an error.
    chain.spoil("ALTER TABLE live.audit RENAME TO audit_out_of_the_way")
    try:
        found = replace(chain, plan=plan, runs=1000).compare()
    finally:
        chain.spoil("ALTER TABLE live.audit_out_of_the_way RENAME TO audit")
    assert [(t.table, t.verdict, t.reason) for t in found.tables] == [
        ("account", Verdict.MATCH, ""),
        ("audit", Verdict.NOT_RUN, "parked: loaded again on Monday"),
        ("long_gone", Verdict.NOT_RUN, "parked: dropped at the source"),
    ]
    assert (found.verdict, found.is_partial) == (Verdict.MATCH, True)
    (saved,) = chain.store.live_reconciliations(plan.sync, 1)
    assert [table.is_parked for table in saved.tables] == [False, True, True]
    assert is_green([], [saved])


def keeping(chain: Chain) -> Chain:
    """Its comparisons keep what matched, and read some of ten ranges of each table that the log has not touched."""
    large = tuple(replace(one, table=replace(one.target, rows_estimate=40_960)) for one in chain.plan.tables)
    plan = replace(chain.plan, tables=large, reconcile=ReconcilePlan(rotate=5, attempts=1))
    return replace(chain, plan=plan, runs=chain.runs + 5_000)


def test_three_changed_rows_are_exactly_three_breaks(chain: Chain) -> None:
    chain.bank.execute("INSERT INTO account VALUES (-1, 1, 'one'), (-2, 2, 'two')")
    with postgres(chain.warehouse) as session:
        wait_until(
            lambda: session.execute("SELECT count(*) FROM live.account WHERE id < 0").fetchone() == (2,),
            timeout_s=30,
            what="the rows to arrive",
        )
        kept = keeping(chain)
        assert kept.compare().verdict is Verdict.MATCH
        chain.bank.execute("UPDATE account SET a = 3 WHERE id = -1")
        wait_until(
            lambda: session.execute("SELECT a FROM live.account WHERE id = -1").fetchone() == (3,),
            timeout_s=30,
            what="the change to arrive",
        )
    chain.spoil(
        "UPDATE live.account SET memo = 'other' WHERE id = -1",
        "DELETE FROM live.account WHERE id = -2",
        "INSERT INTO live.account VALUES (-3, 3, NULL)",
    )
    found = kept.compare()
    saved = chain.store.reconciliation(found.run_id, "live")
    assert saved is not None
    # The log has the first row, and explains none of the changes.
    witnesses = {one.key: one.witness for one in saved.tables[0].breaks}
    assert {key: (one.moved, one.changes) for key, one in witnesses.items() if one} == {
        '{"id": "-1"}': (Moved.DESTINATION, 1),
        '{"id": "-2"}': (Moved.DESTINATION, 0),
        '{"id": "-3"}': (Moved.DESTINATION, 0),
    }
    assert found.verdict is Verdict.BREAK
    assert listed(found) == {
        "account": {
            (BreakType.VALUE, '{"id": "-1"}'),
            (BreakType.MISSING, '{"id": "-2"}'),
            (BreakType.UNEXPECTED, '{"id": "-3"}'),
        },
        "audit": set(),
    }
    chain.spoil(
        "UPDATE live.account SET memo = 'one' WHERE id = -1",
        "INSERT INTO live.account VALUES (-2, 2, 'two')",
        "DELETE FROM live.account WHERE id = -3",
    )
    whole, in_part = kept.compare(), kept.compare()
    assert (whole.verdict, in_part.verdict) == (Verdict.MATCH, Verdict.MATCH)
    assert REPEATED not in whole.evidence, "after a BREAK all rows are compared"
    assert " of 10 buckets read, the others since " in in_part.tables[0].reason
    assert in_part.tables[0].source_rows == whole.tables[0].source_rows


def differing(chain: Chain, first: int) -> Reconciliation:
    """Rows from `first` down that differ in each way; the last one is as it should be."""
    ids = [first - number for number in range(4)]
    chain.bank.execute(f"INSERT INTO account VALUES ({ids[0]}, 1, 'one'), ({ids[1]}, 2, 'two'), ({ids[3]}, 4, 'four')")
    with postgres(chain.warehouse) as session:
        there = f"SELECT count(*) FROM live.account WHERE id BETWEEN {ids[3]} AND {ids[0]}"
        wait_until(lambda: session.execute(there.encode()).fetchone() == (3,), timeout_s=30, what="the rows to arrive")
    chain.spoil(
        f"UPDATE live.account SET memo = 'other' WHERE id IN ({ids[0]}, {ids[3]})",
        f"DELETE FROM live.account WHERE id = {ids[1]}",
        f"INSERT INTO live.account VALUES ({ids[2]}, 3, NULL)",
    )
    found = chain.compare()
    assert found.verdict is Verdict.BREAK
    return found


def approved(chain: Chain, found: Reconciliation) -> Repair:
    planned = repairing.plan(chain.plan.sync, compared=found.run_id, by="ann", origin="test")
    with closing(repairing.repairs()) as kept:
        with pytest.raises(Refused, match="another person"):
            kept.approve(planned.run_id, by="Ann ", cause=RootCause.OUTSIDE, reason="by hand", origin="test")
        with pytest.raises(Refused, match="not approved"):
            repairing.apply(planned.run_id)
        kept.approve(planned.run_id, by="bob", cause=RootCause.OUTSIDE, reason="by hand", origin="test")
    return planned


def states(repair: Repair) -> dict[str, RowState]:
    return {row.key: row.state for row in repair.rows}


def test_what_two_persons_have_agreed_on_is_repaired_while_writers_write(chain: Chain) -> None:
    with writing(chain.bank.root, tables=TABLES, count=2, first_id=1_000_000, pause_max_s=0.08) as writers:
        found = differing(chain, -100)
        planned = approved(chain, found)
        assert [(row.key, row.action) for row in planned.planned] == [
            ("-100", RowAction.UPSERT), ("-101", RowAction.UPSERT), ("-102", RowAction.DELETE),
            ("-103", RowAction.UPSERT),
        ]  # fmt: skip
        assert planned.planned[0].source == {"id": "-100", "a": "1", "memo": "one"}
        assert planned.planned[0].destination == {"id": "-100", "a": "1", "memo": "other"}
        # The source changes a row meanwhile: it is the stream's.
        chain.bank.execute("UPDATE account SET memo = 'moved on' WHERE id = -103")
        before = writers.committed
        done = repairing.apply(planned.run_id)
        wait_until(lambda: writers.committed > before, timeout_s=30, what="writers to go on")
        assert (done.state, done.verdict, done.cause) == (RepairState.APPLIED, Verdict.MATCH, RootCause.OUTSIDE)
        assert states(done) == {
            "-100": RowState.APPLIED, "-101": RowState.APPLIED, "-102": RowState.APPLIED, "-103": RowState.EQUAL,
        }  # fmt: skip
        saved = chain.store.reconciliation(planned.run_id, "live")
        assert saved is not None
        assert str(saved.position) == done.applied_position
        assert chain.compare().verdict is Verdict.MATCH
    # Applied once more it changes nothing.
    assert states(repairing.apply(planned.run_id)) == states(done)
    with closing(Database()) as database:
        logged = database.transact(
            lambda session: session.execute(
                "select kind, who from audit_entry where run_id = %s and kind like 'repair%%' order by number",
                (planned.run_id,),
            ).fetchall()
        )
    assert logged == [("repair planned", "ann"), ("repair approved", "bob"), ("repair applied", "ann")]


def test_a_repair_that_is_killed_leaves_nothing_or_the_whole_and_the_next_finishes_it(
    chain: Chain, tmp_path: Path
) -> None:
    planned = approved(chain, differing(chain, -1000))
    rows = "SELECT count(*) FROM live.account WHERE id BETWEEN -1003 AND -1000 AND memo IN ('one', 'two', 'four')"
    for place, right in (("app.epoch_taken", 0), ("app.commit_acked", 3)):
        command = [sys.executable, "-m", "seamline.cli.main", "repair", "apply", planned.run_id]
        armed = {**settings.process_environment(), "SEAMLINE_FAILPOINTS": f"{place}=kill9"}
        killed = subprocess.run(command, env=armed, capture_output=True, timeout=120, check=False, cwd=tmp_path)
        assert killed.returncode == -signal.SIGKILL, killed.stderr.decode()
        with postgres(chain.warehouse) as session:
            assert session.execute(rows.encode()).fetchone() == (right,)
        with closing(Database()) as database:
            # Its hold ends by itself, in half a minute.
            database.transact(lambda held: held.execute("delete from stream_hold").rowcount)
    done = repairing.apply(planned.run_id)
    assert (done.verdict, set(states(done).values())) == (Verdict.MATCH, {RowState.APPLIED})


def test_a_finding_of_the_stream_breaks_the_next_verdict_once(chain: Chain) -> None:
    chain.bank.execute("INSERT INTO account VALUES (-10, 1, 'one')")
    with postgres(chain.warehouse) as session:
        there = "SELECT memo FROM live.account WHERE id = -10"
        wait_until(lambda: session.execute(there).fetchone() == ("one",), timeout_s=30, what="the row to arrive")
        chain.spoil("DELETE FROM live.account WHERE id = -10")
        chain.bank.execute("UPDATE account SET memo = 'two' WHERE id = -10")
        wait_until(lambda: session.execute(there).fetchone() == ("two",), timeout_s=30, what="the update to arrive")
    found = chain.compare()
    assert found.verdict is Verdict.BREAK
    ((kind, key),) = listed(found)["account"]
    assert kind is BreakType.FINDING
    assert json.loads(key)
    assert chain.compare().verdict is Verdict.MATCH


def test_a_paused_stream_is_inconclusive_and_comparable_as_soon_as_it_is_let_go(chain: Chain) -> None:
    director = registry.director()
    stream = chain.plan.stream_id("warehouse")
    director.pause(stream, by="ann")
    wait_until(lambda: getattr(director.latest_report(stream), "state", "") == "paused", timeout_s=30, what="the pause")
    found = chain.compare()
    assert found.verdict is Verdict.INCONCLUSIVE
    assert "it is paused" in found.tables[0].reason
    director.resume(stream, by="ann")
    # At once: the stream's last word is still that it is paused.
    assert chain.compare().verdict is Verdict.MATCH


def test_a_run_leaves_its_verdict_for_the_tasks_after_it(chain: Chain) -> None:
    chain.compare()
    run: Any = chain.store.run(f"{chain.plan.sync}/reconcile/-/{chain.runs}")
    assert run.result["compare"]["warehouse"]["verdict"] == "MATCH"
