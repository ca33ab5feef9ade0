"""A source that was restored uses its positions a second time; the newest marker that the log has is its witness.

Its row is deleted here, which is all that a capture can see of a source that was restored to the time before it
(test_put_back_source.py puts one back).
"""

from collections.abc import Iterator
from contextlib import closing

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, lost_by_name, marker_in_log, replay, stored
from tests.integration.captured_postgres import PostgresCaptured, captured_postgres
from tests.waiting import wait_until

KINDS = {"mariadb": captured, "postgres": captured_postgres}


@pytest.fixture(params=KINDS)
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Captured]:
    with KINDS[request.param](f"restored_{request.param}") as one:
        yield one


def stopped_behind_a_marker(bank: Captured) -> str:
    """The id of the marker that the capture has sent last, seconds ago."""
    bank.ensure()
    marker = marker_in_log(bank)
    wait_until(lambda: stored(bank).get("seamline_marker") == marker, timeout_s=30, what="the marker in the offset")
    bank.connector.stop()
    return marker


def put_back_row(bank: Captured, marker: str) -> None:
    bank.execute(f"INSERT INTO seamline_marker (id, kind, payload) VALUES ('{marker}', 'heartbeat', '{{}}')")


def test_a_source_that_does_not_hold_the_last_marker_of_the_log_is_not_gone_on_with(bank: Captured) -> None:
    marker = stopped_behind_a_marker(bank)
    bank.execute(f"DELETE FROM seamline_marker WHERE id = '{marker}'", "INSERT INTO account VALUES (1, 1, 'another')")
    refused = lost_by_name(bank, f"restored to an earlier state.*does not hold marker {marker}")
    assert "put the row back" in refused.hint
    # Who knows that it was only deleted says so.
    put_back_row(bank, marker)
    bank.ensure()
    assert replay(bank, marker_in_log(bank)).holds("account") == [(1, 1, "another")]


def test_the_last_marker_stays_the_witness_over_later_transactions_and_starts(bank: Captured) -> None:
    marker = stopped_behind_a_marker(bank)
    bank.execute("INSERT INTO account VALUES (1, 1, 'later')")
    before = stored(bank)
    bank.connector.start()
    wait_until(lambda: stored(bank) != before, timeout_s=60, what="a later place")
    assert stored(bank)["seamline_marker"] == marker


@pytest.mark.parametrize("statement", ["DELETE FROM seamline_marker", "TRUNCATE TABLE seamline_marker"])
def test_a_capture_that_learned_of_the_deletion_of_its_witness_has_none(statement: str, bank: Captured) -> None:
    bank.ensure()
    marker = marker_in_log(bank)
    wait_until(lambda: stored(bank).get("seamline_marker") == marker, timeout_s=30, what="the marker in the offset")
    bank.execute(statement, "INSERT INTO account VALUES (1, 1, 'later')")
    wait_until(lambda: "seamline_marker" not in stored(bank), timeout_s=30, what="the place without a witness")
    bank.connector.stop()
    bank.ensure()
    assert "seamline_marker" in stored(bank)


def test_a_marker_that_is_shown_a_moment_later_than_the_log_holds_it_is_waited_for(stack: RunningStack) -> None:  # noqa: ARG001
    """Between the two a server takes a few steps, in which a task may ask."""
    with captured_postgres("shown_later") as bank:
        marker = stopped_behind_a_marker(bank)
        bank.execute(f"DELETE FROM seamline_marker WHERE id = '{marker}'")
        bank.client.resume(bank.connector.name)
        wait_until(lambda: has_missed_it(bank), timeout_s=60, what="the connector to miss the marker", every_s=0.01)
        put_back_row(bank, marker)
        name = bank.connector.name
        status = bank.client.wait_for(name, lambda one: one.is_running or one.is_failed, what="to a start")
        assert status.is_running, status.error
        assert replay(bank, marker_in_log(bank)).transactions


def has_missed_it(bank: PostgresCaptured) -> bool:
    """Its session at the start has an answer, and goes on asking."""
    with closing(bank.session()) as session:
        asking = session.execute(
            "SELECT FROM pg_stat_activity WHERE datname = %s AND state = 'idle' AND query LIKE 'SELECT id FROM %%'",
            (bank.source_plan.database,),
        )
        return asking.fetchone() is not None


def test_another_server_at_the_address_is_named_and_not_gone_on_with(bank: Captured) -> None:
    """A promoted replica holds the markers too. Here the store says that the log is of another one."""
    bank.ensure()
    marker_in_log(bank)
    bank.connector.stop()
    own = stored(bank)["seamline_server"]
    bank.client.put_offset(
        bank.connector.name,
        partition={"server": bank.connector.name},
        offset={**stored(bank), "seamline_server": "its predecessor"},
    )
    bank.execute("INSERT INTO account VALUES (1, 1, 'of the other')")
    end = bank.topics.end_offset()
    refused = lost_by_name(bank, f"calls itself {own}, and the log is of its predecessor")
    assert "onboard the syncs of this source again" in refused.hint
    assert bank.topics.end_offset() == end
