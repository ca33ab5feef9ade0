"""Processes to which something happens at a failpoint: each is armed by a file of its own and says what it says into
another.

They are forked by one that has imported all that they need, as a stream's are by Spark's daemon: a fresh interpreter
would import for longer than most of them live.
"""

import multiprocessing
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import psutil

from tests.fault.real import worker
from tests.spark.hosts import session_of
from tests.waiting import wait_until

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload([worker.__name__])
# Reached by the readers of a snapshot: children of the process, or itself where one session reads all.
OF_A_READER = ("snap.chunk_read",)


@dataclass
class Worker:
    what: str
    process: ForkServerProcess
    arming: Path
    log: Path

    @property
    def fired(self) -> list[str]:
        file = self.arming.with_name(self.arming.name + ".fired")
        return file.read_text(encoding="utf-8").split() if file.exists() else []

    @property
    def is_over(self) -> bool:
        return self.process.exitcode is not None

    def came_to(self, failpoint: str) -> bool:
        """Once, but where several readers come to it."""
        return {*self.fired} == {failpoint} and (len(self.fired) == 1 or failpoint in OF_A_READER)

    def ended(self, within_s: float) -> int:
        """Its exit code, negative for a signal; fails, with what it said, if it lives on."""
        self.process.join(within_s)
        assert self.process.exitcode is not None, f"{self.what} lives on after {within_s:g} s: {self.said()}"
        return self.process.exitcode

    def kill(self) -> None:
        self.process.kill()
        self.process.join()

    def disarm(self) -> None:
        self.arming.write_text("", encoding="utf-8")

    def said(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-1500:]

    # ---- with all that it has started: they are of the session that it leads ---------------------------------------

    def left(self) -> list[psutil.Process]:
        """What lives of it."""
        return session_of(self.process.pid or 0)

    def asleep(self) -> list[psutil.Process]:
        found = []
        for process in self.left():
            try:
                if process.status() == psutil.STATUS_STOPPED:
                    found.append(process)
            except psutil.NoSuchProcess:
                continue
        return found

    def wake(self) -> None:
        """Whoever of it sleeps goes on, and nobody falls asleep any more."""
        self.disarm()
        wait_until(lambda: not self._woken(), timeout_s=20, what=f"{self.what} awake")

    def _woken(self) -> list[psutil.Process]:
        """Those who slept: one may have been about to when the others were woken."""
        asleep = self.asleep()
        for process in asleep:
            process.send_signal(signal.SIGCONT)
        return asleep


def started(what: str, folder: Path, *, number: int, arming: str, environment: Mapping[str, str]) -> Worker:
    """`number` is of no other worker of this folder. It has this environment, and no variable beside."""
    armed, log = folder / f"failpoints-{number}", folder / f"{what}-{number}.log"
    armed.write_text(arming, encoding="utf-8")
    log.touch()
    own = {**environment, "SEAMLINE_FAILPOINTS_FILE": str(armed)}
    process = FORKED.Process(target=worker.work_in_a_fork, args=(what, str(folder), str(log), own))
    process.start()
    return Worker(what, process, armed, log)
