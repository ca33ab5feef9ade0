"""A session of tests: one data folder and one block of ports, servers only for the layers that need them."""

import contextlib
import dataclasses
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, TracebackType

import psutil

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.settings import Ports, Settings
from seamline.spec.faults import guess
from seamline.stack.port_bases import drawing, folder_of_base, free_port_base, hold, locked_unless_at_work
from seamline.stack.waiting import wait_until

_CLOSING_LINE = re.compile(r"^(?:=+ )?(?P<said>\d+ \w+.* in \d+[\d.]*s.*?|no tests ran in .*?)(?: =+)?$")
# As pytest's short summary names each, and as the end of a session of tests repeats them.
NAMED_FAILURE = re.compile(r"^(?:FAILED|ERROR) \S.*")
_COLOUR = re.compile(r"\x1b\[[\d;]*m")
_NO_TESTS = 5
# Variables by which a person names a server of his own for tests, as `SEAMLINE_TEST_S3`.
_OF_TESTS = "SEAMLINE_TEST_"
# pytest's exit code, and its last line, of a layer that found that it cannot run on this machine: `pytest.exit`.
NOT_RUN = 64
_NOT_RUN_LINE = re.compile(r"^!+ .*\b(?P<said>not run: .+?) !+$")
_ENDS_ALONE_WITHIN_S = 5.0
_ENDS_WITHIN_S = 10.0
_COMMAND_MAX = 160


@dataclass(frozen=True, slots=True)
class Layer:
    """One folder under tests/, of its name unless `folder` names another. `needs` are components; `is_own_stack`: its
    tests bring up all they need; `is_by_name_only`: it takes too long, or needs what not every machine has, so it runs
    only when somebody names it; `beside`: where all layers run, those of one number do so in a session of their own, at
    the same time as those of the others. Most of a test's time is spent in waiting for servers; the disk is waited for
    only by layers that run by name: the long ones are as in operation, and a browser and containers need rights that a
    filter of calls may take.

    A test that takes longer than `test_max_s` hangs: its stacks are printed and the layer ends there.
    """

    name: str
    needs: tuple[str, ...] = ()
    test_max_s: int = 120
    is_own_stack: bool = False
    is_by_name_only: bool = False
    beside: int = 0
    folder: str = ""

    @property
    def path(self) -> str:
        """Where its tests lie under tests/."""
        return self.folder or self.name


LAYERS = (
    Layer("unit"),
    Layer("integration", ("postgres", "mariadb", "kafka", "connect"), test_max_s=300),
    Layer("e2e", test_max_s=1500, is_own_stack=True, beside=1),
    Layer("spark", ("postgres", "mariadb", "kafka", "connect"), test_max_s=300, beside=1),
    Layer("contract", ("postgres", "mariadb", "kafka"), beside=2),
    Layer("dags", ("postgres", "mariadb", "kafka", "connect"), test_max_s=300),
    Layer("capture", ("postgres", "mariadb", "kafka", "connect"), test_max_s=300, beside=2),
    Layer("stack", test_max_s=300),
    Layer("simulator", test_max_s=300, beside=2, folder="fault/simulator"),
    # It needs a Chromium, which not every machine has.
    Layer("browser", test_max_s=1500, is_own_stack=True, is_by_name_only=True),
    Layer(
        "fault",
        ("postgres", "mariadb", "kafka", "connect"),
        # Five tables under 24 kills, each of which is gone on from before the next: minutes, and more of them beside
        # other work. Each of its waits has a limit of its own.
        test_max_s=1800,
        is_by_name_only=True,
        folder="fault/real",
    ),
    Layer(
        "soak",
        ("postgres", "mariadb", "kafka", "connect"),
        test_max_s=8 * 3600,
        is_by_name_only=True,
        folder="fault/soak",
    ),
    # Its containers need nothing of this session's servers: an engine and images of its own.
    Layer("compose", test_max_s=1800, is_by_name_only=True),
)


def chosen_layers(names: Sequence[str]) -> list[Layer]:
    """The layers of these names; without names all but those that run by name only."""
    known = [layer.name for layer in LAYERS]
    for name in names:
        if name not in known:
            raise ConfigError(f"there is no layer `{name}`", hint=guess(name, known))
    return [layer for layer in LAYERS if (layer.name in names if names else not layer.is_by_name_only)]


@dataclass(frozen=True, slots=True)
class Outcome:
    layer: str
    passed: bool
    said: str
    failures: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """As pytest closes, `===== unit: 412 passed in 12.34s =====`, and a line for each test that failed."""
        return [f" {self.layer}: {self.said} ".center(100, "="), *self.failures]


class TestSession:
    """Use as a context manager: at its end every process of the session is gone, and, when all passed, its folder."""

    __test__ = False  # pytest: this is no test

    def __init__(self, around: Settings, *, python: Path) -> None:
        self._around = around
        self._python = python
        self._up: tuple[str, ...] = ()
        self._is_clean = True

    def __enter__(self) -> "TestSession":
        # Until its folder is locked a session could be taken for an old one, and its ports for free.
        with drawing(self._around.home):
            self._ports = Ports(free_port_base(self._around.home))
            self._folder = folder_of_base(self._around.home, self._ports.base)
            self._lock = hold(self._folder)
            self._sweep_old()
        self._on_term = signal.signal(signal.SIGTERM, _interrupt)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Who sends it a second time would leave servers behind.
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        self._take_down(self._folder)
        signal.signal(signal.SIGTERM, self._on_term)
        if self._is_clean and kind is None:
            shutil.rmtree(self._folder, ignore_errors=True)
        else:
            sys.stdout.write(f"data and logs of this session are kept in {self._folder} until the next one\n")

    def run(self, layer: Layer, pytest_arguments: Sequence[str]) -> Outcome:
        """Run one layer to its end and say how it went. Never raises for what a test or a server does."""
        began = time.monotonic()
        at = self._settings("e2e" if layer.is_own_stack else "data")
        if layer.is_own_stack:
            self.stop_servers()
        elif not set(layer.needs) <= set(self._up) and not self._bring_up(layer):
            return self._outcome(layer, is_passed=False, said=f"1 error in {time.monotonic() - began:.2f}s (no stack)")
        code, said, failures = self._pytest(layer, at, pytest_arguments)
        if code == _NO_TESTS:
            said = said or "no tests ran"
        left = _end_leftovers(at, keep=self._up)
        if left:
            named = ", ".join(left)
            sys.stdout.write(f"{layer.name}: its tests left processes running: {len(left)}; they were ended: {named}\n")
        if layer.is_own_stack:
            self._down(at)
        took = f"ended with exit code {code} in {time.monotonic() - began:.2f}s"
        return self._outcome(layer, is_passed=code == 0, said=said or took, failures=failures)

    def stop_servers(self) -> None:
        """Nobody needs them now; a layer that does brings them up again."""
        self._take_down(self._folder)

    def _outcome(self, layer: Layer, *, is_passed: bool, said: str, failures: Sequence[str] = ()) -> Outcome:
        self._is_clean = self._is_clean and is_passed
        return Outcome(layer.name, is_passed, said, tuple(failures))

    def _settings(self, folder: str) -> Settings:
        data = self._folder / folder
        return dataclasses.replace(
            self._around, data=data, ports=self._ports, connections=data / "connections.json", connection_uris={}
        )

    def _pytest(self, layer: Layer, at: Settings, arguments: Sequence[str]) -> tuple[int, str, list[str]]:
        """Its exit code, what it closes with, and the lines that name its failures."""
        command = self._command(layer, "pytest", str(at.root / "tests" / layer.path))
        command += ["-o", f"faulthandler_timeout={layer.test_max_s}", "-o", "faulthandler_exit_on_timeout=true"]
        command += arguments
        if sys.stdout.isatty():
            command.append("--color=yes")
        said = ""
        failures = []
        with subprocess.Popen(
            command, cwd=at.root, env=self._environment(at), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        ) as process:
            try:
                for line in process.stdout or ():
                    sys.stdout.write(line)
                    sys.stdout.flush()
                    plain = _COLOUR.sub("", line.rstrip())
                    closing = _CLOSING_LINE.match(plain) or _NOT_RUN_LINE.match(plain)
                    said = closing["said"] if closing else said
                    if NAMED_FAILURE.match(plain):
                        failures.append(plain)
                code = process.wait()
            finally:
                # Still running means that this session was interrupted.
                if process.poll() is None:
                    process.terminate()
            return code, said, failures

    def _command(self, layer: Layer, module: str, *arguments: str) -> list[str]:
        unflushed = [] if layer.is_by_name_only else [str(self._python), "-m", "seamline.stack.without_fsync"]
        return [*unflushed, str(self._python), "-m", module, *arguments]

    def _bring_up(self, layer: Layer) -> bool:
        at = self._settings("data")
        command = self._command(layer, "seamline.cli.main", "up", "--only", ",".join(layer.needs))
        is_up = self._run(at, command) == 0
        self._up = (*self._up, *layer.needs) if is_up else self._up
        return is_up

    def _take_down(self, folder: Path) -> None:
        for data in (folder / "data", folder / "e2e"):
            at = dataclasses.replace(self._settings("data"), data=data)
            if data.is_dir():
                self._down(at)
            # Tests that were interrupted have not ended what they started.
            _end_leftovers(at, keep=())
        self._up = ()

    def _sweep_old(self) -> None:
        """Remove what failed sessions have kept and what killed ones left running. One that is at work is let be."""
        for old in self._folder.parent.iterdir():
            if old == self._folder:
                continue
            # One that ends just now takes its folder along.
            with contextlib.suppress(FileNotFoundError), locked_unless_at_work(old) as is_locked:
                if is_locked:
                    self._take_down(old)
                    shutil.rmtree(old, ignore_errors=True)

    def _down(self, at: Settings) -> None:
        self._run(at, [str(self._python), "-m", "seamline.cli.main", "down"])

    def _run(self, at: Settings, command: Sequence[str]) -> int:
        # Another process, because everything below it reads its settings from the environment.
        return subprocess.run(command, cwd=at.root, env=self._environment(at), check=False).returncode

    def _environment(self, at: Settings) -> dict[str, str]:
        """This process's environment with the session's settings, and without anybody's connections to real servers."""
        around = {
            name: value
            for name, value in settings.process_environment().items()
            if name.startswith(_OF_TESTS) or not name.startswith("SEAMLINE_") and name != "PYTHONDONTWRITEBYTECODE"
        }
        scratch = self._folder / "scratch"
        scratch.mkdir(parents=True, exist_ok=True)
        # The rest follows from these, also when a test sets another data folder.
        return {
            **around,
            # Most JVMs of tests live for seconds: the compiler for longer lives took a third of their CPU.
            # A JVM that is killed leaves what it has unpacked: in this folder it goes with the session.
            "JDK_JAVA_OPTIONS": " ".join(
                (around.get("JDK_JAVA_OPTIONS", ""), "-XX:TieredStopAtLevel=1", f'"-Djava.io.tmpdir={scratch}"')
            ).strip(),
            # Each module is compiled once for all processes of all sessions. Tests start hundreds, and compiling
            # is half of what an import of Airflow takes. Nothing is written beside installed files.
            "PYTHONPYCACHEPREFIX": str(at.home / "bytecode"),
            "SEAMLINE_HOME": str(at.home),
            "SEAMLINE_DATA": str(at.data),
            "SEAMLINE_PORT_BASE": str(at.ports.base),
        }


def _end_leftovers(at: Settings, *, keep: Sequence[str]) -> list[str]:
    """End what tests started and did not end: processes with this session's data folder that belong to no server.

    Returns the ends of their command lines, where a JVM says what it runs. A JVM ends a moment after the Python that
    drove it: it has that moment.
    """
    found = [process for process in psutil.process_iter() if _is_leftover(process, at, keep)]
    wait_until(lambda: not any(_is_leftover(one, at, keep) for one in found), timeout_s=_ENDS_ALONE_WITHIN_S)
    found = [process for process in found if _is_leftover(process, at, keep)]
    named = []
    for process in found:
        with contextlib.suppress(psutil.Error):
            named.append(" ".join(process.cmdline())[-_COMMAND_MAX:])
            process.kill()
    wait_until(lambda: not any(_is_leftover(process, at, keep) for process in found), timeout_s=_ENDS_WITHIN_S)
    return named


def _is_leftover(process: psutil.Process, at: Settings, keep: Sequence[str]) -> bool:
    try:
        environment = process.environ()
        alive = process.status() != psutil.STATUS_ZOMBIE
    except (psutil.Error, OSError):
        return False
    is_ours = environment.get("SEAMLINE_DATA") == str(at.data)
    is_server = bool(keep) and "SEAMLINE_STACK" in environment
    return alive and is_ours and not is_server


def _interrupt(number: int, frame: FrameType | None) -> None:
    """SIGTERM ends the session the way Ctrl-C does, so that its servers are stopped."""
    del number, frame
    raise KeyboardInterrupt
