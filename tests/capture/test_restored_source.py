"""A source that was restored tells its positions a second time; the newest marker that the log has told is its witness.

Its row is deleted here, which is all that a capture can see of a source that was restored to the time before it.
"""

import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from seamline.stack.layout import Layout
from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, lost_by_name, replay, told_marker
from tests.integration.captured_postgres import captured_postgres
from tests.waiting import wait_until

KINDS = {"mariadb": captured, "postgres": captured_postgres}


@pytest.fixture(params=KINDS)
def bank(request: pytest.FixtureRequest, stack: RunningStack) -> Iterator[Captured]:
    with KINDS[request.param](f"restored_{request.param}") as one:
        yield one


def stored(bank: Captured) -> dict[str, Any]:
    return bank.client.offset(bank.connector.name) or {}


def stopped_behind(bank: Captured, marker: str, *, age: timedelta) -> None:
    """The capture is stopped, and its store says that the marker, which it told last, is of that age."""
    wait_until(lambda: stored(bank).get("seamline_marker") == marker, timeout_s=30, what="the marker in the offset")
    bank.connector.stop()
    committed_ms = int((time.time() - age.total_seconds()) * 1000)
    bank.client.put_offset(
        bank.connector.name,
        partition={"server": bank.connector.name},
        offset={**stored(bank), "seamline_marker_ms": committed_ms},
    )


def test_a_source_that_does_not_hold_the_last_marker_of_the_log_is_not_gone_on_with(bank: Captured) -> None:
    bank.ensure()
    marker = told_marker(bank)
    stopped_behind(bank, marker, age=timedelta(days=30))
    bank.execute(f"DELETE FROM seamline_marker WHERE id = '{marker}'", "INSERT INTO account VALUES (1, 1, 'another')")
    refused = lost_by_name(bank, f"restored to an earlier state.*does not hold marker {marker}")
    assert "put the row back" in refused.hint
    # Who knows that it was only deleted says so.
    bank.execute(f"INSERT INTO seamline_marker (id, kind, payload) VALUES ('{marker}', 'heartbeat', '{{}}')")
    bank.ensure()
    assert replay(bank, told_marker(bank)).holds("account") == [(1, 1, "another")]


def test_the_last_marker_stays_the_witness_over_later_transactions_and_starts(bank: Captured) -> None:
    bank.ensure()
    marker = told_marker(bank)
    wait_until(lambda: stored(bank).get("seamline_marker") == marker, timeout_s=30, what="the marker in the offset")
    bank.connector.stop()
    bank.execute("INSERT INTO account VALUES (1, 1, 'later')")
    before = stored(bank)
    bank.connector.start()
    wait_until(lambda: stored(bank) != before, timeout_s=60, what="a later place")
    assert stored(bank)["seamline_marker"] == marker


@pytest.mark.parametrize("statement", ["DELETE FROM seamline_marker", "TRUNCATE TABLE seamline_marker"])
def test_a_capture_that_was_told_of_the_deletion_of_its_witness_has_none(statement: str, bank: Captured) -> None:
    bank.ensure()
    marker = told_marker(bank)
    wait_until(lambda: stored(bank).get("seamline_marker") == marker, timeout_s=30, what="the marker in the offset")
    bank.execute(statement, "INSERT INTO account VALUES (1, 1, 'later')")
    wait_until(lambda: "seamline_marker" not in stored(bank), timeout_s=30, what="the place without a witness")
    bank.connector.stop()
    bank.ensure()
    assert "seamline_marker" in stored(bank)


def test_a_marker_that_the_source_does_not_show_yet_is_waited_for(bank: Captured, stack: RunningStack) -> None:
    """A commit may stand in a source's log before any session sees it: while a standby is asked, for one."""
    bank.ensure()
    marker = told_marker(bank)
    stopped_behind(bank, marker, age=timedelta(seconds=0))
    bank.execute(f"DELETE FROM seamline_marker WHERE id = '{marker}'")
    bank.connector.start()
    connect_log = Layout(stack.settings).log_of("connect")
    wait_until(
        lambda: f"Marker {marker} stands in the log" in connect_log.read_text(encoding="utf-8", errors="replace"),
        timeout_s=30,
        what="the connector to miss the marker",
    )
    bank.execute(f"INSERT INTO seamline_marker (id, kind, payload) VALUES ('{marker}', 'heartbeat', '{{}}')")
    told_marker(bank)


def test_another_server_at_the_address_is_named_and_not_gone_on_with(bank: Captured) -> None:
    """A promoted replica holds the markers too. Here the store says that the log is of another one."""
    bank.ensure()
    told_marker(bank)
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
