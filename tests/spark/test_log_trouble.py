"""Kafka dies, or stays away, in mid-stream while writers go on: nothing is lost and nothing is doubled.

Nobody helps: the host starts its stream again and mends the capture, Supervisor starts the broker that was killed.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest

from seamline.domain.verdict import Verdict
from seamline.plan.document import plan_to_json
from seamline.platform.streams import StreamEvent
from seamline.stack import kafka, supervisor
from seamline.stack.layout import Layout
from seamline.sync.capture_watch import CAPTURE_FAILED
from seamline_spark.compare.main import compare_run
from tests.conftest import RunningStack
from tests.integration.bank_writers import Writers
from tests.spark.chains import TABLES, Chain, chain_of
from tests.waiting import wait_until

BROKER = "kafka"
COMMITS = 200


@pytest.fixture(scope="module")
def layout(stack: RunningStack) -> Layout:
    return Layout(stack.settings)


@pytest.fixture(scope="module")
def chain(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with chain_of("log_trouble_test", tmp_path_factory.mktemp("streams")) as chain:
        yield chain


def test_a_broker_killed_in_mid_stream_loses_nothing_and_doubles_nothing(chain: Chain, layout: Layout) -> None:
    began = datetime.now(UTC)
    with in_mid_stream(chain) as writers:
        killed = supervisor.state(layout, BROKER).pid
        os.kill(killed, signal.SIGKILL)
        wait_until(lambda: is_back(layout, instead_of=killed), timeout_s=60, what="the broker to be started again")
        commit_more(writers)
    assert_nothing_lost_or_doubled(chain, run="killed")
    assert "failed" not in {event.state for event in events(chain, since=began)}


def test_a_broker_that_stays_away_is_waited_for_and_its_stream_goes_on_where_it_was(
    chain: Chain, layout: Layout
) -> None:
    began = datetime.now(UTC)
    with in_mid_stream(chain) as writers:
        with stopped(layout):
            wait_until(lambda: chain.hosts.state(chain.sync) == "backing_off", timeout_s=60, what="the stream to end")
            commit_more(writers)
            applied = chain.applied_transactions()
        wait_until(lambda: chain.applied_transactions() > applied, timeout_s=90, what="the stream to go on")
        commit_more(writers)
    assert_nothing_lost_or_doubled(chain, run="away")
    found = events(chain, since=began)
    assert "failed" not in {event.state for event in found}
    assert all("TransientError" in event.error for event in found if event.state == "backing_off")


def test_after_the_trouble_no_alarm_of_the_capture_is_left(chain: Chain) -> None:
    wait_until(
        lambda: not [alarm for alarm in chain.hosts.store.open_alarms() if alarm.kind == CAPTURE_FAILED],
        timeout_s=30,
        what="the capture's alarm to end",
    )


@contextmanager
def in_mid_stream(chain: Chain) -> Iterator[Writers]:
    """Writers write and the stream applies what they do."""
    chain.host_is_up()
    with chain.writing() as writers:
        before = chain.applied_transactions()
        wait_until(lambda: chain.applied_transactions() > before + COMMITS, timeout_s=60, what="the stream to apply")
        yield writers


@contextmanager
def stopped(layout: Layout) -> Iterator[None]:
    """The broker is away. It comes back whatever happens: other tests need it."""
    was = supervisor.state(layout, BROKER).pid
    supervisor.stop_programs(layout, [BROKER])
    try:
        assert not kafka.broker_is_ready(layout)
        yield
    finally:
        supervisor.start_program(layout, BROKER)
        wait_until(lambda: is_back(layout, instead_of=was), timeout_s=60, what="the broker to be started again")


def is_back(layout: Layout, *, instead_of: int) -> bool:
    state = supervisor.state(layout, BROKER)
    return state.is_running and state.pid != instead_of and kafka.broker_is_ready(layout)


def commit_more(writers: Writers) -> None:
    before = writers.committed
    wait_until(lambda: writers.committed > before + COMMITS, timeout_s=30, what="writers to go on")


def events(chain: Chain, *, since: datetime) -> list[StreamEvent]:
    stream = chain.plan.stream_id("warehouse")
    return list(chain.hosts.director.events(stream, since=since, until=since + timedelta(hours=1)))


def assert_nothing_lost_or_doubled(chain: Chain, *, run: str) -> None:
    """Row for row by our own count, and by the comparison that people rely on."""
    chain.assert_equal_in_the_end()
    chain.assert_no_surprise()
    run_id = f"{chain.sync}/reconcile/-/{run}"
    chain.hosts.store.start_run(run_id=run_id, sync=chain.sync, kind="reconcile", plan_json=plan_to_json(chain.plan))
    (found,) = compare_run(run_id)
    assert {table.table: table.verdict for table in found.tables} == dict.fromkeys(TABLES, Verdict.MATCH), found
    assert all(table.source_rows and table.source_rows == table.destination_rows for table in found.tables)
