"""A stream to which nothing happens gives its worker up, and whatever happens then is met as if it had one.

A bank on MariaDB, its capture, Kafka, the stream host, PostgreSQL: nothing is a fake.
"""

import time
from collections.abc import Iterator

import psutil
import pytest

from seamline.domain.ledger import StreamId
from tests.conftest import RunningStack
from tests.spark.chains import Chain, chain_of
from tests.spark.hosts import session_of
from tests.waiting import wait_until

# The host says every five seconds that what was reported last still holds.
YOUNG_S = 7.0


@pytest.fixture(scope="module")
def chain(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    with chain_of("idle_streams_test", tmp_path_factory.mktemp("idle")) as chain:
        yield chain


@pytest.fixture
def idle(chain: Chain) -> Chain:
    """The chain, its stream caught up and without a worker."""
    host = chain.host_is_up("--idle-after", "3")
    # A barrier alone wakes nobody.
    chain.bank.execute("INSERT INTO audit VALUES (1, 'wake')")
    chain.assert_equal_in_the_end()
    wait_until(lambda: not workers(host), timeout_s=60, what="the stream to give up its worker")
    return chain


def workers(host: int) -> list[psutil.Process]:
    """The processes that run streams: forks of Spark's daemon, which is itself a child of the JVM."""
    return [process for process in session_of(host) if is_worker(process)]


def is_worker(process: psutil.Process) -> bool:
    try:
        parent = process.parent()
        return parent is not None and "seamline_spark.stream_host.daemon" in parent.cmdline()
    except psutil.NoSuchProcess:
        # It has ended just now.
        return False


def stream_of(chain: Chain) -> StreamId:
    return chain.plan.stream_id("warehouse")


def test_an_idle_stream_is_reported_as_one_that_streams(idle: Chain) -> None:
    host, began = idle.host_is_up(), time.monotonic()

    def is_long_ago() -> bool:
        report = idle.hosts.report(idle.sync)
        assert report is not None
        assert report.state == "streaming"
        assert report.age_s < YOUNG_S
        assert not workers(host)
        return time.monotonic() - began > 2 * YOUNG_S

    wait_until(is_long_ago, timeout_s=60, what="the worker's last word to be old")


def test_a_change_that_comes_while_nobody_works_is_applied(idle: Chain) -> None:
    idle.bank.execute("INSERT INTO account VALUES (900001, 1, 'late')")
    idle.assert_equal_in_the_end()
    idle.assert_no_surprise()


def test_streams_get_their_workers_back_while_the_platform_database_is_away(idle: Chain) -> None:
    host = idle.host_is_up()
    idle.hosts.refuse_all()
    try:
        wait_until(lambda: workers(host), timeout_s=30, what="a worker, as long as the lease lasts")
        idle.bank.execute("INSERT INTO account VALUES (900002, 2, 'nobody hears orders')")
        idle.assert_equal_in_the_end()
        assert workers(host), "who cannot hear orders does not go idle"
    finally:
        idle.hosts.admit_all()
    wait_until(
        lambda: (report := idle.hosts.report(idle.sync)) is not None and report.age_s < YOUNG_S,
        timeout_s=60,
        what="the stream to be heard again",
    )


def test_an_idle_stream_answers_who_holds_it(idle: Chain) -> None:
    director, stream = idle.hosts.director, stream_of(idle)
    hold_id = director.hold(stream, lease_s=60)
    wait_until(
        lambda: (
            (report := idle.hosts.report(idle.sync)) is not None and (report.state, report.hold_id) == ("held", hold_id)
        ),
        timeout_s=60,
        what="the stream to stand",
    )
    director.release(hold_id)
    wait_until(
        lambda: (report := idle.hosts.report(idle.sync)) is not None and report.state == "streaming",
        timeout_s=60,
        what="the stream to go on",
    )
