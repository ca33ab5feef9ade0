"""A Spark cluster of a test's own: a standalone master and one worker on loopback."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from seamline import settings
from tests.waiting import wait_until

LOOPBACK = "127.0.0.1"
PROGRAMS = Path(pyspark.__file__).parent / "bin"


@dataclass(frozen=True)
class Cluster:
    host: str
    port: int
    work: Path

    def executors(self) -> list[Path]:
        """The folders of all executors that it ever ran, one `app-*/N` each."""
        return sorted(self.work.glob("app-*/*/"))


@contextmanager
def standalone_cluster(folder: Path) -> Iterator[Cluster]:
    work = folder / "work"
    with ExitStack() as stack:
        announced = stack.enter_context(
            _daemon(
                folder / "master.log",
                "master.Master",
                "--port",
                "0",
                announced_by=r"Spark master at (spark://(.+):(\d+))",
            )
        )
        stack.enter_context(
            _daemon(
                folder / "worker.log", "worker.Worker", "--cores", "4", "--memory", "1g", "--work-dir", str(work),
                announced[1], announced_by="Successfully registered with master",
            )
        )  # fmt: skip
        yield Cluster(announced[2], int(announced[3]), work)


@contextmanager
def _daemon(log: Path, name: str, *arguments: str, announced_by: str) -> Iterator["re.Match[str]"]:
    """Running, from the moment that its log says so (`announced_by`)."""
    with log.open("wb") as output:
        daemon = subprocess.Popen(
            [
                str(PROGRAMS / "spark-class"), f"org.apache.spark.deploy.{name}",
                "--host", LOOPBACK, "--webui-port", "0", *arguments,
            ],
            env={**settings.process_environment(), "SPARK_LOCAL_IP": LOOPBACK},
            stdout=output,
            stderr=output,
        )  # fmt: skip

    def announced() -> "re.Match[str] | None":
        text = log.read_text(encoding="utf-8")
        assert daemon.poll() is None, text
        return re.search(announced_by, text)

    try:
        yield wait_until(announced, timeout_s=60, what=f"Spark's {name}")
    finally:
        # It has nothing to save, and its executors end without it.
        daemon.kill()
        daemon.wait()
