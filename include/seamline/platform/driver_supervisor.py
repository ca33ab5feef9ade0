"""Runs one Spark driver and keeps its row: `python -m seamline.platform.driver_supervisor <name> <attempt> <command>`.

It leads or shares the session of all that the driver starts, and ends that session's other processes when the row says
so, when the row is somebody else's, and when the row cannot be reached for so long that others may take the driver for
lost. The kernel ends the driver when this process is killed.
"""

import logging
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from seamline.adapters.process_identity import session_members
from seamline.domain.driver_run import BEGINS_WITHIN_S, GIVES_UP_AFTER_S, HEARTBEAT_S, LOST_AFTER_S, DriverId, Order
from seamline.platform.database import OpenSession, Session, open_session
from seamline.platform.driver_runs import TERMINATED, beat, begin, finish
from seamline.platform.host_lease import this_process
from seamline.platform.notify_loop import NotifyLoop

log = logging.getLogger("seamline.driver")

# The exit code of a supervisor whose row did not let it begin; no driver was started.
REFUSED = 75
_NOT_FOUND = 127
# A parent that ends before the kernel was asked for its signal sends none.
_UNLESS_ORPHANED = '[ "$PPID" = "$0" ] && exec "$@"'
_GRACE_S = 10.0
_LOOK_S = 1.0
_LAST_BYTES, _LAST_LINES = 16_384, 60


def _open_for_driver() -> Session:
    return open_session(application_name="seamline driver", statement_timeout_s=5)


class DriverSupervisor:
    """`log_file` is where the driver's output goes; its end is kept in the row."""

    def __init__(
        self,
        driver: DriverId,
        *,
        log_file: Path,
        open_one: OpenSession = _open_for_driver,
        gives_up_after_s: float = GIVES_UP_AFTER_S,
    ) -> None:
        self._driver = driver
        self._log_file = log_file
        self._gives_up_after_s = gives_up_after_s
        self._holder = this_process()
        self._has_begun = False
        self._order = Order.GO_ON
        self._confirmed_s = _now_s()
        self._exit_code: int | None = None
        self._answered, self._recorded = threading.Event(), threading.Event()
        self._loop = NotifyLoop(f"driver {driver}", cycle=self._cycle, open_one=open_one, poll_s=HEARTBEAT_S)

    def run(self, command: Sequence[str]) -> int:
        """The driver's exit code, or `REFUSED`."""
        self._loop.start()
        try:
            if not self._answered.wait(BEGINS_WITHIN_S) or self._order is Order.FENCED:
                self._order = Order.FENCED
                log.error("the driver is not started, its row does not let it: driver=%s", self._driver)
                return REFUSED
            # The row is ours, so whoever has ordered the end waits for it also where nothing was started yet.
            self._exit_code = TERMINATED if self._order is Order.END else self._run(command)
            self._loop.wake()
            # Behind that time the row counts as lost, whatever is written into it.
            self._recorded.wait(LOST_AFTER_S)
            return self._exit_code
        finally:
            self._loop.close()

    def _cycle(self, session: Session) -> None:
        if self._order is Order.FENCED or self._recorded.is_set():
            self._recorded.set()
            return
        asked_s = _now_s()
        if self._exit_code is not None:
            finish(
                session,
                self._driver,
                holder=self._holder,
                exit_code=self._exit_code,
                last_lines=_last_lines(self._log_file),
            )
            self._recorded.set()
            return
        if self._has_begun:
            self._order = beat(session, self._driver, holder=self._holder)
        else:
            self._order = begin(session, self._driver, holder=self._holder, log=str(self._log_file))
            self._has_begun = True
        if self._order is Order.GO_ON:
            self._confirmed_s = asked_s
        self._answered.set()

    def _run(self, command: Sequence[str]) -> int:
        # Killed with this process: nobody would renew its row, and the next attempt would start beside it.
        try:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "sh", "-c", _UNLESS_ORPHANED, str(os.getpid()), *command],
                stdin=subprocess.DEVNULL,
            )
        except FileNotFoundError as exc:
            log.error("the driver cannot be started: %s", exc)  # noqa: TRY400 (the text says it all)
            return _NOT_FOUND
        exits = os.pidfd_open(process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(exits, selectors.EVENT_READ)
                while process.poll() is None:
                    if why := self._why_end():
                        log.warning("the driver is ended: driver=%s because=%s", self._driver, why)
                        _end_session(process)
                        break
                    selector.select(_LOOK_S)
        finally:
            os.close(exits)
        code = process.wait()
        return code if code >= 0 else 128 - code

    def _why_end(self) -> str:
        if self._order is not Order.GO_ON:
            return "its row orders it" if self._order is Order.END else "another attempt has its place"
        silent_s = _now_s() - self._confirmed_s
        if silent_s > self._gives_up_after_s:
            return f"the platform database could not be reached for {silent_s:.0f} s, others may take it for lost"
        return ""


def _end_session(process: "subprocess.Popen[bytes]") -> None:
    """End what the driver has started, too: Spark's Python workers have process groups of their own."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        deadline_s = time.monotonic() + _GRACE_S
        for pid in _others():
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue
        while time.monotonic() < deadline_s:
            process.poll()
            if not _others():
                return
            time.sleep(0.05)


def _others() -> list[int]:
    leader = os.getsid(0)
    return [pid for pid in session_members(leader) if pid not in (leader, os.getpid())]


def _last_lines(log_file: Path) -> list[str]:
    try:
        with log_file.open("rb") as stream:
            stream.seek(max(0, log_file.stat().st_size - _LAST_BYTES))
            text = stream.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return []
    # PostgreSQL keeps no NUL in a text.
    return text.replace("\0", "").splitlines()[-_LAST_LINES:]


def _now_s() -> float:
    """A clock that goes on while the machine sleeps, as the database's does."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def main(argv: Sequence[str]) -> int:
    name, attempt, *command = argv
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # Whoever ends the session ends the driver with it; its end is still written down.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    return DriverSupervisor(DriverId(name, int(attempt)), log_file=Path.cwd() / "driver.log").run(command)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
