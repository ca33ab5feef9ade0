"""The real host, real Spark, real platform database; streams that do nothing but follow orders."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from queue import SimpleQueue
from types import SimpleNamespace

import psutil
import psycopg
import pytest

from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.plan.document import plan_to_json
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan, TablePlan
from seamline.platform.host_coordinator import WantedNow
from seamline.ports import WantedStream
from seamline.sync.source_watch import SOURCE_ALARMS
from seamline.sync.stream_host import Outcome, Start, StreamRoster, TaskEnd
from seamline_spark.stream_host.host import StreamHost
from seamline_spark.stream_host.spark_streams import SparkStreams
from tests.conftest import RunningStack
from tests.installed import EXAMPLE, install
from tests.spark.hosts import START_S, Hosts, hosts_of, is_gone, session_of, uri
from tests.waiting import wait_until

SCRIPT = Path(__file__).with_name("simple_streams_host.py")
NOBODY = SimpleNamespace(carry=lambda tables: None, close=lambda: None)


@pytest.fixture(scope="module")
def shared(stack: RunningStack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hosts]:
    """One host for the tests that leave it alive. Their streams have names of their own."""
    folder = tmp_path_factory.mktemp("shared")
    with hosts_of(SCRIPT, folder, name="stream_host_shared_test", SIMPLE_STREAMS_FOLDER=str(folder)) as hosts:
        hosts.start("--slots", "12")
        yield hosts


@pytest.fixture(scope="module")
def suspended(shared: Hosts) -> int:
    """The worker of a stream, `frozen`. It is suspended before the first test, for the host misses it after 45 s."""
    want(shared, "frozen")
    worker = shared.pid("frozen")
    os.kill(worker, signal.SIGSTOP)
    return worker


@pytest.fixture
def hosts(stack: RunningStack, tmp_path: Path) -> Iterator[Hosts]:
    with hosts_of(SCRIPT, tmp_path, name="stream_host_test", SIMPLE_STREAMS_FOLDER=str(tmp_path)) as hosts:
        yield hosts


def want(hosts: Hosts, *syncs: str) -> None:
    for sync in syncs:
        hosts.director.want(StreamId(sync, "warehouse"), plan_json=plan_json(sync))


def plan_json(sync: str, kind: str = "mariadb") -> str:
    return plan_to_json(
        SyncPlan(
            sync=sync,
            source=SourcePlan("bank", kind, "bank", "bank", "bank", "bank", "seamline.bank.log", "seamline-bank"),
            destinations=(DestinationPlan("warehouse", "postgres", "warehouse", "settlement"),),
            tables=(TablePlan("account"),),
        )
    )


@pytest.mark.usefixtures("suspended")
def test_a_killed_worker_is_replaced_and_the_other_streams_do_not_notice(shared: Hosts) -> None:
    want(shared, "one", "two", "three")
    killed = shared.pid("one")
    shared.pid("two"), shared.pid("three")
    os.kill(killed, signal.SIGKILL)
    wait_until(lambda: shared.written("one")["pid"] != killed, timeout_s=15, what="a new worker")
    shared.moves_on("two")
    shared.moves_on("three")


def test_a_stream_ends_alone_when_it_is_no_longer_wanted_and_by_force_when_it_is_deaf(shared: Hosts) -> None:
    want(shared, "good", "deaf", "other")
    good, deaf = shared.pid("good"), shared.pid("deaf")
    shared.pid("other")
    shared.director.unwant(StreamId("good", "warehouse"))
    wait_until(lambda: is_gone(good), timeout_s=START_S, what="the stream to stop")
    shared.director.unwant(StreamId("deaf", "warehouse"))
    # Eight seconds of grace, two of Spark's; the rest is what a loaded machine takes to hear of it.
    wait_until(
        lambda: "cancelling stream that did not stop: stream=deaf@warehouse" in shared.log(),
        timeout_s=START_S,
        what="the host to lose its patience with the deaf stream",
    )
    wait_until(lambda: is_gone(deaf), timeout_s=START_S, what="the deaf stream to be cancelled")
    wait_until(lambda: shared.state("deaf") == "stopped", timeout_s=START_S, what="its last report")
    shared.moves_on("other")
    want(shared, "good")
    wait_until(lambda: shared.written("good")["pid"] != good, timeout_s=START_S, what="the stream to be back")


def test_a_plan_of_an_unknown_kind_or_one_that_cannot_be_read_is_one_failed_stream_and_the_others_go_on(
    shared: Hosts,
) -> None:
    """The host ended with it, and every stream of the pool with the host."""
    want(shared, "one")
    shared.pid("one")
    shared.director.want(StreamId("unknown", "warehouse"), plan_json=plan_json("unknown", "cobol"))
    with psycopg.connect(uri(shared.platform), autocommit=True) as session:
        session.execute(
            "insert into seamline.stream (sync, destination, pool, plan_json, is_wanted)"
            " values ('unreadable', 'warehouse', 'default', '{\"sync\": 3}', true)"
        )
    for sync, reason in (("unknown", "there is no source of kind 'cobol'"), ("unreadable", "KeyError: 'source'")):
        wait_until(lambda name=sync: shared.state(name) == "failed", timeout_s=30, what=f"{sync} to fail")
        assert reason in (report.error if (report := shared.report(sync)) else "")
    shared.moves_on("one")
    assert shared.started[0].poll() is None
    failed = {one.subject for one in shared.store.open_alarms() if one.kind == "stream_failed"}
    assert failed >= {"unknown@warehouse", "unreadable@warehouse"}


def test_a_second_host_names_the_first_and_exits_with_its_own_code(shared: Hosts) -> None:
    want(shared, "one")
    shared.pid("one")
    second = shared.start("--slots", "4")
    assert second.wait(timeout=30) == 4
    assert f"process {shared.started[0].pid}" in shared.log(1)
    shared.moves_on("one")


def test_a_fenced_stream_stays_down_until_somebody_wants_it_again(shared: Hosts) -> None:
    want(shared, "fenced", "one")
    shared.pid("one")
    wait_until(lambda: shared.state("fenced") == "failed", timeout_s=10, what="the failed state")
    assert "stream=fenced@warehouse attempt=2" not in shared.log()
    want(shared, "fenced")
    wait_until(lambda: "stream=fenced@warehouse attempt=2" in shared.log(), timeout_s=10, what="another attempt")


def goes_on(hosts: Hosts, sync: str, before: int, *, timeout_s: float = START_S) -> int:
    """The worker of this stream, another one than before."""
    found = wait_until(
        lambda: pid if (pid := hosts.written(sync).get("pid")) != before else None,
        timeout_s=timeout_s,
        what=f"another worker of {sync}",
    )
    return found or 0


def test_a_killed_jvm_or_daemon_takes_its_workers_along_and_a_killed_host_leaves_no_process(hosts: Hosts) -> None:
    """One host after another over the same streams: the next one takes them over at once, however one has ended."""
    want(hosts, "one", "two")
    host = hosts.start("--slots", "4")
    worker, other = hosts.pid("one"), hosts.pid("two")
    daemon = psutil.Process(worker).ppid()
    assert daemon != host.pid
    os.kill(daemon, signal.SIGKILL)
    wait_until(lambda: is_gone(worker) and is_gone(other), timeout_s=10, what="the workers to follow their daemon")
    again, other = goes_on(hosts, "one", worker, timeout_s=20), goes_on(hosts, "two", other, timeout_s=20)
    jvm = next(process for process in session_of(host.pid) if "java" in process.name())
    jvm.kill()
    wait_until(lambda: is_gone(again) and is_gone(other), timeout_s=15, what="the workers to follow the JVM")
    assert host.wait(timeout=30) == 1

    second = hosts.start("--slots", "4")
    workers = [goes_on(hosts, "one", again), goes_on(hosts, "two", other)]
    everything = [process.pid for process in session_of(second.pid)]
    assert set(workers) <= set(everything)
    second.kill()
    wait_until(lambda: all(is_gone(pid) for pid in everything), timeout_s=15, what="every process to be gone")
    hosts.start("--slots", "4")
    goes_on(hosts, "one", workers[0])


def test_a_stop_signal_ends_every_stream_in_order_also_where_the_host_cannot_hear_the_database(hosts: Hosts) -> None:
    want(hosts, "one", "two")
    host = hosts.start("--slots", "4")
    before = hosts.pid("one")
    hosts.pid("two")
    everything = [process.pid for process in session_of(host.pid)]
    os.killpg(host.pid, signal.SIGTERM)
    assert host.wait(timeout=30) == 0
    assert [hosts.state("one"), hosts.state("two")] == ["stopped", "stopped"]
    assert [pid for pid in everything if not is_gone(pid)] == []
    next_one = hosts.start("--slots", "4")
    worker = goes_on(hosts, "one", before)
    assert next_one.poll() is None
    hosts.refuse_all()
    next_one.terminate()
    assert next_one.wait(timeout=40) == 0
    assert is_gone(worker)


def test_more_streams_than_slots_is_a_state_that_alarms_and_heals(hosts: Hosts) -> None:
    want(hosts, "one", "two")
    hosts.start("--slots", "2", "--reserve", "1")
    hosts.pid("one")
    wait_until(lambda: hosts.state("two") == "no_slot", timeout_s=10, what="the state without a slot")
    assert [(alarm.kind, alarm.subject) for alarm in hosts.store.open_alarms()] == [("no_slot", "two@warehouse")]
    hosts.director.unwant(StreamId("one", "warehouse"))
    hosts.pid("two")
    wait_until(lambda: hosts.store.open_alarms() == (), timeout_s=10, what="the alarm to end")


def test_a_host_waits_for_the_platform_database_and_stops_waiting_when_asked_to(hosts: Hosts) -> None:
    hosts.refuse_all()
    host = hosts.start("--slots", "4")
    wait_until(lambda: "cannot be taken yet" in hosts.log(), timeout_s=20, what="the host to wait")
    host.terminate()
    assert host.wait(timeout=20) == 0


def test_new_code_reaches_the_streams_one_after_another_by_a_daemon_that_loads_it(
    stack: RunningStack, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    install(EXAMPLE, packages)
    environment = {"SIMPLE_STREAMS_FOLDER": str(tmp_path), "PYTHONPATH": str(packages)}
    with hosts_of(SCRIPT, tmp_path, name="stream_host_code_test", **environment) as hosts:
        want(hosts, "one", "two")
        hosts.start("--slots", "4", "--look-at-code", "1")
        before = {sync: hosts.pid(sync) for sync in ("one", "two")}
        old = hosts.written("one")["daemon"]
        assert hosts.written("two")["daemon"] == old
        (packages / "seamline_memory" / "log.py").write_text("# edited\n")
        for sync in ("one", "two"):
            wait_until(lambda sync=sync: hosts.written(sync)["daemon"] != old, timeout_s=60, what=f"{sync} by new code")
            assert hosts.written(sync)["pid"] != before[sync]
        assert hosts.written("one")["daemon"] == hosts.written("two")["daemon"], "one daemon for one state of the code"
        wait_until(lambda: hosts.store.open_alarms() == (), timeout_s=30, what="the alarm to end")
        # Each in its turn: the second was left alone until the first was up again.
        steps = [line.split("stream=")[1].split()[0] for line in hosts.log().splitlines() if "new code: " in line]
        assert steps == ["one@warehouse", "two@warehouse"]
        assert "0 of 2 streams run by the installed code" in hosts.log()
        assert "1 of 2 streams run by the installed code" in hosts.log()


def test_a_source_is_watched_by_the_plans_that_can_be_used() -> None:
    watched: list[str] = []
    host = StreamHost(
        streams=SimpleNamespace(),  # type: ignore[arg-type]
        coordinator=SimpleNamespace(),  # type: ignore[arg-type]
        roster=StreamRoster(slots=2),
        events=SimpleQueue(),
        watch_source=lambda plan: watched.append(plan.source.kind) or NOBODY,  # type: ignore[func-returns-value]
    )
    texts = (plan_json("one"), plan_json("two", "cobol"), "{")
    streams = (WantedStream(StreamId(f"s{number}", "warehouse"), text, 1) for number, text in enumerate(texts))
    host._take_in(WantedNow(tuple(streams)))  # noqa: SLF001
    assert watched == ["mariadb"], "the plan of another sync would have taken the place of this one"


@pytest.mark.parametrize(
    ("raised", "outcome"),
    [(ConfigError("kind cobol is not installed"), Outcome.FINAL), (TransientError("no answer"), Outcome.LOST)],
)
def test_what_may_pass_ends_no_stream_for_good(
    raised: SeamlineError, outcome: Outcome, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise raised

    monkeypatch.setattr(SparkStreams, "_run_job", fails)
    streams, ends = object.__new__(SparkStreams), SimpleQueue[TaskEnd]()
    streams._ends = ends  # noqa: SLF001
    streams._run(Start(WantedStream(StreamId("one", "warehouse"), plan_json("one"), 1), 1))  # noqa: SLF001
    end = ends.get(timeout=1)
    assert (end.outcome, raised.message in end.error) == (outcome, True)


def test_a_source_that_no_stream_needs_any_more_leaves_no_alarm_behind() -> None:
    """Nobody looks at it from then on, so nobody could end one."""
    over: list[tuple[str, str]] = []
    closed: list[str] = []
    carried: list[frozenset[str]] = []
    coordinator = SimpleNamespace(end_alarm=lambda kind, subject: over.append((kind, subject)))
    host = StreamHost(
        streams=SimpleNamespace(),  # type: ignore[arg-type]
        coordinator=coordinator,  # type: ignore[arg-type]
        roster=StreamRoster(slots=2),
        events=SimpleQueue(),
        watch_source=lambda plan: SimpleNamespace(carry=carried.append, close=lambda: closed.append(plan.source.name)),
    )
    stream = WantedStream(StreamId("one", "warehouse"), plan_json("one"), 1)
    host._take_in(WantedNow((stream,)))  # noqa: SLF001
    assert over == []
    assert carried == [frozenset({"account"})], "its heartbeats say what the catalogue has of the streams' tables"
    host._take_in(WantedNow(()))  # noqa: SLF001
    assert closed == ["bank"]
    assert over == [(kind, "bank") for kind in SOURCE_ALARMS]


def test_a_suspended_worker_is_replaced(shared: Hosts, suspended: int) -> None:
    """It holds its slot and its connection and says nothing: only its silence shows."""
    want(shared, "one")
    shared.pid("one")
    wait_until(lambda: shared.written("frozen")["pid"] != suspended, timeout_s=150, what="another worker")
    assert is_gone(suspended)
    shared.moves_on("one")


def test_streams_and_restarts_go_on_while_the_platform_database_is_away(shared: Hosts) -> None:
    want(shared, "lonely", "two")
    killed = shared.pid("lonely")
    shared.pid("two")
    shared.refuse_all()
    os.kill(killed, signal.SIGKILL)
    again = wait_until(
        lambda: pid if (pid := shared.written("lonely")["pid"]) != killed else None, timeout_s=20, what="a new worker"
    )
    shared.moves_on("two")
    wait_until(lambda: "is away" in shared.log(), timeout_s=20, what="the host to notice")
    shared.admit_all()
    shared.director.unwant(StreamId("lonely", "warehouse"))
    wait_until(lambda: is_gone(again), timeout_s=20, what="the stream to hear that it is no longer wanted")
    shared.moves_on("two")
    assert shared.started[0].poll() is None
