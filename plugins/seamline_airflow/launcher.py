"""Starting a Spark driver so that it outlives the task, the worker and the scheduler that asked for it.

A driver that is a child of an Airflow task dies with it, and a retry would start a second one beside it. Here the
driver leads a session of its own, known on this machine by process id, the kernel's start time of that process, and the
folder that holds its log and, at the end, its exit code. What other machines know of it is a row of the platform
database: `recorded_launcher.py`.
"""

import dataclasses
import fcntl
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from seamline.adapters.process_identity import session_members, space, started_ticks
from seamline.domain.driver_run import DriverStatus
from seamline.domain.errors import ConfigError, InvariantViolated, Refused

ATTEMPTS_KEPT = 5
_EXIT_CODE = "exit_code"
_LOG = "driver.log"
_PROCESS = "process"
_ALIVE = "alive"
# The wrapper stays the session's leader: it writes who it is before the driver starts and the exit code after it
# ended, each by rename, so that a reader sees all or nothing. `trap :` lets it outlive the signal that ends its child.
# While it lives it holds a lock on a file: that can be seen from other containers too.
_WRAPPER = """
trap : TERM INT HUP
folder=$1; space=$2; shift 2
exec 9> "$folder/alive" && flock -n 9 || exit
me="$$ $(cut -d' ' -f22 /proc/$$/stat) $space"
printf '%s' "$me" > "$folder/process.new" && mv "$folder/process.new" "$folder/process"
printf '%s\\n' "$me"
exec >> "$folder/driver.log" 2>&1 < /dev/null
"$@" 9>&-
printf '%s' "$?" > "$folder/exit_code.new" && mv "$folder/exit_code.new" "$folder/exit_code"
"""


@dataclass(frozen=True, slots=True)
class DriverJob:
    """`name` is the same for every attempt of one task instance; it names the folder. `argv` holds no secret."""

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DriverHandle:
    """JSON-able name of one driver. `kernel_start` (clock ticks after `boot_id`) distinguishes a reused process id, and
    `space` that of another container; "" in a handle of an earlier version."""

    pid: int
    kernel_start: int
    boot_id: str
    folder: str
    space: str = ""

    @property
    def is_of_here(self) -> bool:
        """Whether its process id means something to this process."""
        return self.space == space() if self.space else self.boot_id == _boot_id()

    @property
    def log(self) -> Path:
        return Path(self.folder) / _LOG

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, document: Any) -> "DriverHandle":
        return cls(**document)


class DetachedLauncher:
    """Drivers as detached processes of this machine, one folder per launch under `root`. Every call may be repeated."""

    def __init__(self, root: Path, *, grace_s: float = 20.0) -> None:
        self._root = root
        self._grace_s = grace_s

    def submit(self, job: DriverJob) -> DriverHandle:
        """Start the job's driver; one that is still alive under this name is returned instead."""
        with self.alone(job.name):
            return self.living(job.name) or self.launch(job, attempt=self.newest(job.name) + 1)

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Two attempts of one task may live at the same time, the task process of a stopped Airflow goes on: only one
        of them looks for a driver and starts it. Also over containers that share the folder."""
        home = self._home(name)
        home.mkdir(parents=True, exist_ok=True)
        with _locked(home / "lock"):
            yield

    def newest(self, name: str) -> int:
        """The number of the newest launch under this name, 0 where there is none."""
        return max(self._attempts(name), default=0)

    def living(self, name: str) -> DriverHandle | None:
        """The driver of the newest launch, if it runs. Ends what is left of one that lost its wrapper."""
        handle = self.find(name, self.newest(name))
        if handle is None or self.status(handle) is DriverStatus.RUNNING:
            return handle
        # A driver whose wrapper was killed alone would go on unseen beside the next one.
        self.kill(handle)
        return None

    def find(self, name: str, attempt: int) -> DriverHandle | None:
        """The launch of this number; None where this machine knows of none."""
        folder = self._home(name) / str(attempt)
        try:
            return _handle(folder, (folder / _PROCESS).read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def launch(self, job: DriverJob, *, attempt: int) -> DriverHandle:
        """Start a driver beside whatever runs: for who is `alone`."""
        for old in sorted(self._attempts(job.name))[: -ATTEMPTS_KEPT + 1]:
            shutil.rmtree(self._home(job.name) / str(old), ignore_errors=True)
        folder = self._home(job.name) / str(attempt)
        folder.mkdir(mode=0o700)
        return _launch(folder, job)

    def _home(self, name: str) -> Path:
        return self._root / folder_name(name)

    def _attempts(self, name: str) -> list[int]:
        home = self._home(name)
        return [int(entry.name) for entry in home.iterdir() if entry.name.isdecimal()] if home.is_dir() else []

    def status(self, handle: DriverHandle) -> DriverStatus:
        # Order matters: a driver that ends between the two looks has written its code before it vanished.
        is_alive = _is_alive(handle)
        code = self.exit_code(handle)
        if code is not None:
            return DriverStatus.SUCCEEDED if code == 0 else DriverStatus.FAILED
        return DriverStatus.RUNNING if is_alive else DriverStatus.LOST

    def exit_code(self, handle: DriverHandle) -> int | None:
        """None while it runs, and for ever where it was lost."""
        try:
            return int((Path(handle.folder) / _EXIT_CODE).read_text(encoding="ascii"))
        except FileNotFoundError:
            return None

    def kill(self, handle: DriverHandle) -> None:
        """End the driver and all processes of its session; returns when they are gone. Refused where it runs in another
        container: nobody can reach it from here."""
        if not handle.is_of_here:
            if not _is_alive(handle):
                return
            raise Refused(
                f"the driver of {handle.folder} runs in another container, as its process {handle.pid}",
                hint="end it there; its log is in that folder",
            )
        for number, patience_s in ((signal.SIGTERM, self._grace_s), (signal.SIGKILL, self._grace_s)):
            deadline = time.monotonic() + patience_s
            _signal_session(handle, number)
            while _session_of(handle):
                if time.monotonic() >= deadline:
                    break
                time.sleep(0.05)
            else:
                return


def folder_name(name: str) -> str:
    """A file name for any text: readable, and different for different texts."""
    readable = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80]
    return f"{readable}-{sha256(name.encode()).hexdigest()[:12]}"


def driver_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a driver inherits: everything but Airflow's own settings, which hold its database and signing keys."""
    return {
        name: value for name, value in environment.items() if not name.startswith(("AIRFLOW", "_AIRFLOW", "__AIRFLOW"))
    }


def require_private(path: Path) -> None:
    """Refuse a file of secrets that others can read."""
    if path.exists() and path.stat().st_mode & 0o077:
        raise ConfigError(f"{path} holds secrets and can be read by others", hint=f"chmod 600 {path}")


def read_new(log: Path, offset: int, *, bytes_max: int = 1 << 20) -> tuple[list[str], int]:
    """The whole lines of `log` from byte `offset` on, and the offset after them."""
    try:
        with log.open("rb") as stream:
            stream.seek(offset)
            block = stream.read(bytes_max)
    except FileNotFoundError:
        return [], offset
    end = block.rfind(b"\n") + 1
    if not end and len(block) == bytes_max:
        end = bytes_max
    return block[:end].decode("utf-8", "replace").splitlines(), offset + end


def _launch(folder: Path, job: DriverJob) -> DriverHandle:
    # --fork: the driver is re-parented at once, so no worker waits for it and no zombie is left with one.
    command = ["setsid", "--fork", "sh", "-c", _WRAPPER, "seamline-driver", str(folder), space(), *job.argv]
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(job.environment),
        cwd=folder,
        close_fds=True,
        text=True,
    ) as started:
        line = started.stdout.readline() if started.stdout else ""
    if not line.strip():
        raise InvariantViolated(
            f"the driver of {job.name} did not start",
            hint=f"see {folder / _LOG}; where there is none, its folder may lie where no file can be locked",
        )
    return _handle(folder, line)


def _handle(folder: Path, text: str) -> DriverHandle:
    pid, kernel_start, *rest = text.split()
    # An earlier version's wrapper does not say where it runs.
    where = rest[0] if rest else ""
    return DriverHandle(int(pid), int(kernel_start), where.partition(".")[0] or _boot_id(), str(folder), where)


def _is_alive(handle: DriverHandle) -> bool:
    if not handle.is_of_here:
        return _is_locked(Path(handle.folder) / _ALIVE)
    return started_ticks(handle.pid) == handle.kernel_start


def _is_locked(path: Path) -> bool:
    """Whether somebody, in whatever container, holds the lock."""
    try:
        with path.open("rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        pass
    return False


def _session_of(handle: DriverHandle) -> list[int]:
    """Every living process of the driver's session, also where its leader is gone."""
    members = session_members(handle.pid)
    # The kernel gives a number away again only when no session bears it any more.
    return [] if members.get(handle.pid, handle.kernel_start) != handle.kernel_start else list(members)


def _signal_session(handle: DriverHandle, number: signal.Signals) -> None:
    for pid in _session_of(handle):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield
