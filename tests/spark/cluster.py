"""A Spark cluster of a test's own: a standalone master and workers, each a machine of its own as far as Spark sees.

A worker has an address of its own, in a network namespace of its own where `network` could make one, a work folder, and
an environment of variables that knows nothing of the checkout: the packages of `requirements.txt`, Java, and what the
owner of the machine says.
"""

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pyspark

from seamline import settings
from tests.spark.network import Addresses, Machine, Namespaces, network
from tests.waiting import wait_until

PROGRAMS = Path(pyspark.__file__).parent / "bin"
_INHERITED = ("PATH", "LANG", "TZ", "JAVA_HOME", "JDK_JAVA_OPTIONS")
_EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"


@dataclass
class Worker:
    """One machine. `folder` holds what Spark puts there: an `app-*/N` for each executor."""

    machine: Machine
    folder: Path
    daemon: "subprocess.Popen[bytes]"
    page: str

    def at_work(self) -> list[psutil.Process]:
        """The JVMs of executors in which a table is read or a stream runs: Spark's daemon there has forked."""
        return [one for one in psutil.process_iter() if self._is_at_work(one)]

    def kill(self) -> None:
        """As if the machine lost its power: the daemon and everything that it has started."""
        living = [self.daemon.pid, *(one.pid for one in psutil.Process(self.daemon.pid).children(recursive=True))]
        for pid in living:
            kill_tree(pid)
        self.daemon.wait()

    def _is_at_work(self, process: psutil.Process) -> bool:
        try:
            is_mine = _EXECUTOR in process.cmdline() and self.folder in Path(process.cwd()).parents
            return is_mine and any(daemon.children() for daemon in process.children())
        except psutil.Error:
            return False  # it ends just now


@dataclass
class Cluster:
    network: Addresses | Namespaces
    port: int
    page: str
    folder: Path
    python: Path
    workers: list[Worker] = field(default_factory=list)

    @property
    def host(self) -> str:
        """The address of master and drivers."""
        return self.network.here

    @property
    def master(self) -> str:
        return f"spark://{self.host}:{self.port}"

    def add_worker(self, **variables: str) -> Worker:
        """One more machine, registered; its owner has set these variables."""
        number = len(self.workers) + 2
        machine, folder = self.network.machine(number), self.folder / f"machine{number}"
        folder.mkdir()
        arguments = ("--cores", "4", "--memory", "2g", "--work-dir", str(folder), self.master)
        daemon, page, _ = _started(folder / "daemon.log", machine, "worker.Worker", *arguments, variables=variables)
        self.workers.append(Worker(machine, folder, daemon, page))
        return self.workers[-1]

    def at_work(self) -> list[psutil.Process]:
        """The executors of all machines in which something runs."""
        return [one for worker in self.living_workers for one in worker.at_work()]

    def pages(self) -> list[str]:
        return [self.page, *(worker.page for worker in self.living_workers)]

    @property
    def living_workers(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.daemon.poll() is None]

    def executor_folders(self) -> list[Path]:
        """Of all executors that it ever ran."""
        return sorted(folder for worker in self.workers for folder in worker.folder.glob("app-*/*/"))


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    """A master; its workers are added by the test, and gone at the end."""
    with ExitStack() as stack:
        around, log = stack.enter_context(network()), folder / "master.log"
        daemon, page, url = _started(log, Machine(around.here), "master.Master", "--port", "0", variables={})
        stack.callback(_end, daemon)
        port = int(url.rpartition(":")[2])
        cluster = Cluster(around, port, page, folder, python_without_the_project(folder / "environment"))
        stack.callback(lambda: [_end(worker.daemon) for worker in cluster.workers])
        yield cluster


def python_without_the_project(folder: Path) -> Path:
    """An interpreter with every package of this one, but not the project itself, which is installed as a checkout."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (ours,) = (Path(one) for one in sys.path if one.endswith("site-packages"))
    (theirs,) = folder.glob("lib/python*/site-packages")
    for one in ours.iterdir():
        if not one.name.startswith(("seamline", "_seamline")):
            (theirs / one.name).symlink_to(one)
    return folder / "bin" / "python"


def kill_tree(pid: int) -> None:
    """The process and all that descend from it, at once."""
    try:
        process = psutil.Process(pid)
        for one in [process, *process.children(recursive=True)]:
            one.kill()
    except psutil.NoSuchProcess:
        return


_ANNOUNCED = {
    "master.Master": r"Spark master at (spark://\S+)",
    "worker.Worker": r"Successfully registered with master (\S+)",
}
_PAGE = re.compile(r"WebUI.* started at (http://\S+)")


def _started(
    log: Path, machine: Machine, name: str, *arguments: str, variables: Mapping[str, str]
) -> "tuple[subprocess.Popen[bytes], str, str]":
    """Running, from the moment that its log says so; its page, and the master's URL."""
    own = settings.process_environment()
    inherited = {name: own[name] for name in _INHERITED if name in own}
    spark, host = str(PROGRAMS / "spark-class"), machine.address
    command = [*machine.runner, spark, f"org.apache.spark.deploy.{name}", "--host", host, "--webui-port", "0"]
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [*command, *arguments],
            env={**inherited, "SPARK_LOCAL_IP": host, **variables},
            cwd=log.parent,
            stdout=output,
            stderr=output,
        )

    def announced() -> tuple[str, str] | None:
        text = log.read_text(encoding="utf-8")
        assert daemon.poll() is None, text
        page, master = _PAGE.search(text), re.search(_ANNOUNCED[name], text)
        return (page[1], master[1]) if page and master else None

    try:
        return daemon, *wait_until(announced, timeout_s=60, what=f"Spark's {name}")  # type: ignore[misc]
    except BaseException:
        _end(daemon)
        raise


def _end(daemon: "subprocess.Popen[bytes]") -> None:
    # It has nothing to save.
    kill_tree(daemon.pid)
    daemon.wait()
