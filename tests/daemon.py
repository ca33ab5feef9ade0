"""The process of a server of tests, which may be killed and started again."""

import socket
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.waiting import wait_until


class Daemon:
    """`command` is asked at each start, and has the same port and folders each time. `how`: more for `Popen`."""

    def __init__(
        self,
        command: Callable[[], Sequence[str]],
        log: Path,
        *,
        answers: Callable[[], bool],
        within_s: float = 20,
        **how: Any,
    ) -> None:
        self._command, self._log, self._how = command, log, how
        self._answers, self._within_s = answers, within_s
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """It answers afterwards. A repeat changes nothing."""
        if self._process is not None:
            return
        command = list(self._command())
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, **self._how)
        wait_until(self._is_up, timeout_s=self._within_s, what=command[0])

    def sessions(self) -> list[psutil.Process]:
        """The processes of all sessions, where each has one of its own."""
        return psutil.Process(self._process.pid).children(recursive=True) if self._process else []

    def kill(self) -> None:
        """By SIGKILL, with all sessions. A repeat changes nothing."""
        if self._process is None:
            return
        sessions = self.sessions()
        for one in sessions:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        self._process.kill()
        self._process.wait()
        psutil.wait_procs(sessions)
        self._process = None

    def _is_up(self) -> bool:
        if self._process is not None and self._process.poll() is not None:
            raise AssertionError(self._log.read_text(encoding="utf-8")[-2000:])
        return self._answers()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_open(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
