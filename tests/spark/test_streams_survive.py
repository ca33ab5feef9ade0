"""Real streams under kill -9: worker and whole host die in mid-commit, and the tables are equal at the end.

A bank on MariaDB with writers at work, its capture, Kafka, the stream host, PostgreSQL: nothing is a fake.
"""

import dataclasses
import os
import signal
from collections.abc import Iterator

import pytest

from seamline.domain.errors import Refused
from seamline.plan.model import SyncPlan
from seamline.platform.store import Alarm
from tests.conftest import RunningStack
from tests.integration.bank_writers import Writers
from tests.spark.chains import Chain, chain_of
from tests.spark.hosts import START_S, Failpoints, is_gone, session_of
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def failpoints(tmp_path_factory: pytest.TempPathFactory) -> Failpoints:
    return Failpoints(tmp_path_factory.mktemp("failpoints") / "failpoints")


@pytest.fixture(scope="module")
def chain(stack: RunningStack, failpoints: Failpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    folder = tmp_path_factory.mktemp("streams")
    with chain_of("streams_survive_test", folder, SEAMLINE_FAILPOINTS_FILE=str(failpoints.file)) as chain:
        yield chain


@pytest.fixture
def writers(chain: Chain, failpoints: Failpoints) -> Iterator[Writers]:
    with chain.writing() as writers:
        yield writers
        failpoints.arm("")


def test_workers_killed_in_mid_commit_lose_nothing_and_double_nothing(
    chain: Chain, writers: Writers, failpoints: Failpoints
) -> None:
    place = "app.dml_half"
    chain.host_is_up()
    failpoints.arm(f"{place}=kill9")
    wait_until(lambda: failpoints.fired()[place] >= 3, timeout_s=90, what="three workers to die there")
    failpoints.arm("")
    before = writers.committed
    wait_until(lambda: writers.committed > before + 50, timeout_s=30, what="writers to go on")
    writers.stop()
    chain.assert_equal_in_the_end()
    assert len(chain.destination_rows("account")) > 50


def test_a_host_killed_in_mid_commit_loses_nothing_and_leaves_no_process(
    chain: Chain, writers: Writers, failpoints: Failpoints
) -> None:
    place = "app.commit_sent"
    pid = chain.host_is_up()
    before = failpoints.fired()[place]
    failpoints.arm(f"{place}=wait")
    wait_until(lambda: failpoints.fired()[place] > before, timeout_s=60, what="a worker to stand in mid-commit")
    everything = [process.pid for process in session_of(pid)]
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: all(is_gone(one) for one in everything), timeout_s=20, what="every process to be gone")
    failpoints.arm("")
    chain.host_is_up()
    writers.stop()
    chain.assert_equal_in_the_end()
    assert len(chain.destination_rows("account")) > 50


def test_a_host_that_slept_until_another_took_its_pool_commits_nothing_when_it_wakes_up(
    chain: Chain, writers: Writers
) -> None:
    pid = chain.host_is_up()
    asleep = session_of(pid)
    for process in asleep:
        process.suspend()
    try:
        wait_until(
            lambda: not any(host.is_alive for host in chain.hosts.director.hosts()),
            timeout_s=60,
            what="the lease to end",
        )
        other = chain.hosts.start("--slots", "4")
        wait_until(
            lambda: (
                (report := chain.hosts.report(chain.sync)) is not None
                and report.state in ("streaming", "catching_up")
                and f"/{other.pid}/" in report.host
            ),
            timeout_s=START_S,
            what="the other host's stream",
        )
        transactions = chain.applied_transactions()
        wait_until(
            lambda: chain.applied_transactions() > transactions,
            timeout_s=60,
            what="a commit of the other host's stream",
        )
    finally:
        for process in asleep:
            process.resume()
    wait_until(lambda: all(is_gone(process.pid) for process in asleep), timeout_s=60, what="the first host to end")
    assert other.poll() is None
    writers.stop()
    chain.assert_equal_in_the_end()
    chain.assert_no_surprise()


def test_after_all_the_kills_no_change_met_a_row_that_it_should_not_have(chain: Chain) -> None:
    chain.host_is_up()
    chain.assert_equal_in_the_end()
    chain.assert_no_surprise()


def test_a_log_topic_at_its_byte_limit_holds_the_capture_until_the_limit_is_raised(chain: Chain) -> None:
    chain.host_is_up()
    # More than what the capture writes by itself until its limit is set, by which it is paused at 97 %.
    chain.bank.ensure(with_limit(chain, int(chain.bank.topics.size_bytes() * 1.05) + 200_000))
    with chain.writing():
        # Paused where it fills slowly, stopped where it passes its limit between two looks.
        wait_until(lambda: state_of(chain) in {"PAUSED", "STOPPED"}, timeout_s=60, what="the capture to be held")
    wait_until(lambda: log_size_alarms(chain), timeout_s=30, what="the alarm")
    [alarm] = log_size_alarms(chain)
    assert alarm.subject == chain.plan.source.name
    assert "of its limit" in alarm.message or "reached its limit" in alarm.message
    with pytest.raises(Refused, match="limit"):
        chain.bank.ensure(with_limit(chain, 1))
    chain.bank.ensure()
    # The watch has weighed the log again: by the old limit it would have held the capture once more.
    wait_until(lambda: not log_size_alarms(chain), timeout_s=60, what="the alarm to end")
    wait_until(lambda: state_of(chain) == "RUNNING", timeout_s=30, what="the capture to go on")
    chain.assert_equal_in_the_end()


def state_of(chain: Chain) -> str:
    status = chain.bank.connector.status()
    return status.state if status else ""


def with_limit(chain: Chain, size: int) -> SyncPlan:
    return dataclasses.replace(
        chain.bank.plan, source=dataclasses.replace(chain.bank.plan.source, log_max_gb=size / 2**30)
    )


def log_size_alarms(chain: Chain) -> list[Alarm]:
    return [alarm for alarm in chain.hosts.store.open_alarms() if alarm.kind == "log_size"]
