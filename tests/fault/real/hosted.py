"""A bank whose stream is at work in a stream host: Spark, its JVM, and a Python worker of Spark's daemon."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields

import psutil

from seamline.plan.document import plan_to_json
from tests.fault.real.bank_under_fire import RECOVERY_MAX_S, BankUnderFire
from tests.fault.real.worker import DESTINATION
from tests.fault.real.workers import Worker
from tests.spark.chains import SCRIPT
from tests.spark.hosts import (
    DAEMON,
    START_S,
    Failpoints,
    Hosts,
    hosts_of,
    is_gone,
    kill_host,
    processes_of,
    session_of,
    tasks_of,
)
from tests.waiting import wait_until

_ENDS_WITHIN_S = 60.0


@dataclass(kw_only=True)
class HostedBank(BankUnderFire):
    """Whoever looks after the stream looks after its host, as Supervisor does: one that has ended is started again."""

    hosts: Hosts
    failpoints: Failpoints

    @property
    def host(self) -> "subprocess.Popen[bytes]":
        return self.hosts.started[-1]

    @property
    def is_hosted(self) -> bool:
        return bool(self.hosts.started) and self.host.poll() is None

    def processes(self, of: str) -> list[psutil.Process]:
        """Living processes of the host whose command line says this."""
        return processes_of(self.host, of)

    @property
    def daemon(self) -> psutil.Process:
        """The one of Spark's that forks the workers: they follow it."""
        return self.processes(DAEMON)[0]

    def worker(self) -> psutil.Process:
        """The stream's own process, once there is one."""
        return wait_until(lambda: tasks_of(self.host), timeout_s=RECOVERY_MAX_S, what="a worker of the stream")[-1]

    def come_to(self, place: str, mode: str, *, within_s: float = 60) -> None:
        """A worker comes to this failpoint, and whatever takes its place goes on."""
        before = self.failpoints.fired()[place]
        self.failpoints.arm(f"{place}={mode}")
        wait_until(
            lambda: self.keep_streaming() and self.failpoints.fired()[place] > before,
            timeout_s=within_s,
            what=f"a worker at {place}",
        )
        self.failpoints.arm("")

    def stream(self) -> None:
        """Wanted, and heard of from a host that lives."""
        self.hosts.director.want(self.source.plan.stream_id(DESTINATION), plan_json=plan_to_json(self.source.plan))
        self.hosts.start("--slots", "2")
        wait_until(self._is_streaming, timeout_s=START_S, what="the stream in its host")

    def _is_streaming(self) -> bool:
        report = self.hosts.report(self.source.plan.sync)
        return (
            report is not None and f"/{self.host.pid}/" in report.host and report.state in ("streaming", "catching_up")
        )

    def start(self, what: str, arming: str = "") -> Worker:
        if what != "stream":
            return super().start(what, arming)
        raise AssertionError("its host starts the stream")

    def keep_streaming(self) -> bool:
        if self.host.poll() is not None:
            self.hosts.start("--slots", "2")
        return True

    def stop_stream(self) -> None:
        os.killpg(self.host.pid, signal.SIGTERM)
        assert self.host.wait(timeout=_ENDS_WITHIN_S) == 0, self.hosts.log(len(self.hosts.started) - 1)[-1500:]

    def apply_all(self) -> None:
        if not self.is_hosted:
            self.stream()
        self.recovered(time.monotonic())
        self.stop_stream()


@contextmanager
def hosted(bank: BankUnderFire, **environment: str) -> Iterator[HostedBank]:
    """`environment` is the hosts'."""
    failpoints = Failpoints(bank.folder / "failpoints-of-host")
    name = f"{bank.source.source_plan.name}_platform"
    armed = {"SEAMLINE_FAILPOINTS_FILE": str(failpoints.file)}
    with hosts_of(SCRIPT, bank.folder, name=name, **armed, **environment) as hosts:
        own = {field.name: getattr(bank, field.name) for field in fields(BankUnderFire)}
        yield HostedBank(**own, hosts=hosts, failpoints=failpoints)


# ---- what happens to it ---------------------------------------------------------------------------------------------


def kill_its_host(bank: HostedBank) -> None:
    kill_host(bank.host)


def kill_jvm(bank: HostedBank) -> None:
    (jvm,) = bank.processes("SparkSubmit")
    jvm.kill()
    bank.host.wait(timeout=_ENDS_WITHIN_S)


def kill_daemon(bank: HostedBank) -> None:
    daemon, (jvm,) = bank.daemon, bank.processes("SparkSubmit")
    assert daemon.ppid() == jvm.pid
    daemon.kill()
    wait_until(lambda: is_gone(daemon.pid), timeout_s=10, what="the daemon to be gone")


def kill_worker_twice(bank: HostedBank) -> None:
    """The second one behind a COMMIT whose answer it never sees."""
    for place in ("app.dml_half", "app.commit_sent"):
        bank.come_to(place, "kill9")


def overtake_host(bank: HostedBank) -> None:
    """It sleeps with all its processes until another host has taken its streams over, and wakes up."""
    old, asleep = bank.host, session_of(bank.host.pid)
    for process in asleep:
        process.suspend()
    try:
        wait_until(
            lambda: not any(host.is_alive for host in bank.hosts.director.hosts()),
            timeout_s=60,
            what="the lease to end",
        )
        bank.stream()
        before = bank.warehouse.commits_seen()
        wait_until(lambda: bank.warehouse.commits_seen() > before, timeout_s=60, what="a commit of the other host")
    finally:
        for process in asleep:
            process.resume()
    wait_until(lambda: all(is_gone(process.pid) for process in asleep), timeout_s=60, what="the first host to end")
    old.wait(timeout=10)


TROUBLES = {
    "stream host killed": kill_its_host,
    "JVM of the stream host killed": kill_jvm,
    "daemon of Spark's workers killed": kill_daemon,
    "Python worker killed in mid-commit, and behind a COMMIT": kill_worker_twice,
    "stream host overtaken in its sleep": overtake_host,
}
