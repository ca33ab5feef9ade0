"""`seamline test`: every layer is run and judged, on ports and data of its own, and nothing is left behind."""

import dataclasses
import fcntl
import re
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from seamline import settings
from seamline.cli.main import COMMANDS, main
from seamline.settings import Ports, Settings
from seamline.stack.components import COMPONENTS
from seamline.stack.port_bases import free_port_base, held_port_base
from seamline.stack.session_beside import SessionBeside
from seamline.stack.test_session import (
    LAYERS,
    NOT_RUN,
    Layer,
    Outcome,
    TestSession,
    chosen_layers,
)

PASSES = "def test_one_is_one(): assert 1 == 1\n"
FAILS = "def test_one_is_two(): assert 1 == 2\n"


@pytest.fixture
def around(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A checkout with nothing in it but the tests that a test puts there."""
    # Planted tests need no plugin, and without them pytest starts in a third of the time.
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    # What planted tests leave running never ends alone.
    monkeypatch.setattr("seamline.stack.test_session._ENDS_ALONE_WITHIN_S", 0.5)
    root = tmp_path / "checkout"
    root.mkdir()
    return dataclasses.replace(settings.load({}), root=root, home=tmp_path / "home")


def run_layers(around: Settings, tests: dict[str, str]) -> list[Outcome]:
    for layer, text in tests.items():
        folder = around.root / "tests" / layer
        folder.mkdir(parents=True)
        if text:
            (folder / "test_planted.py").write_text(text, encoding="utf-8")
    with TestSession(around, python=Path(sys.executable)) as session:
        return [session.run(Layer(name), ["-p", "no:cacheprovider"]) for name in tests]


def kept(around: Settings) -> list[Path]:
    return list((around.home / "test").iterdir())


def test_a_layer_that_fails_does_not_stop_the_next(around: Settings) -> None:
    first, second = run_layers(around, {"first": FAILS, "second": PASSES})
    assert (first.passed, second.passed) == (False, True)
    assert re.fullmatch(r"=+ first: 1 failed in [\d.]+s =+", first.lines[0])
    assert re.fullmatch(r"=+ second: 1 passed in [\d.]+s =+", second.lines[0])


def test_the_end_names_each_test_that_failed(around: Settings) -> None:
    first, broken, green = run_layers(around, {"first": FAILS, "broken": "import nothing_of_this_name\n", "ok": PASSES})
    assert [line.partition(" - ")[0] for line in first.lines[1:]] == [
        "FAILED tests/first/test_planted.py::test_one_is_two"
    ]
    assert [line.partition(" - ")[0] for line in broken.lines[1:]] == ["ERROR tests/broken/test_planted.py"]
    assert green.lines[1:] == []


def test_a_layer_without_tests_has_not_passed(around: Settings) -> None:
    (outcome,) = run_layers(around, {"empty": ""})
    assert not outcome.passed
    assert "no tests ran" in outcome.said


def test_a_layer_that_breaks_before_any_test_has_not_passed(around: Settings) -> None:
    (outcome,) = run_layers(around, {"broken": "import nothing_of_this_name\n"})
    assert not outcome.passed
    assert "1 error" in outcome.said


def test_a_test_that_hangs_ends_its_layer_and_shows_where(around: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    folder = around.root / "tests" / "hangs"
    folder.mkdir(parents=True)
    planted = "import threading\ndef test_nothing_ever_comes(): threading.Event().wait()\n"
    (folder / "test_planted.py").write_text(planted, encoding="utf-8")
    with TestSession(around, python=Path(sys.executable)) as session:
        outcome = session.run(Layer("hangs", test_max_s=1), [])
    assert not outcome.passed
    assert "ended with exit code 1" in outcome.said
    assert "in test_nothing_ever_comes" in capfd.readouterr().out


def test_data_is_kept_after_a_failure_until_the_next_session_and_gone_after_success(around: Settings) -> None:
    run_layers(around, {"fails": FAILS})
    (first,) = kept(around)
    # The next one may draw the same ports, and so a folder of the same name.
    mark = first / "of-the-first"
    mark.touch()
    run_layers(around, {"fails_too": FAILS})
    assert not mark.exists() and len(kept(around)) == 1
    run_layers(around, {"passes": PASSES})
    assert kept(around) == []


def test_tests_see_their_own_data_and_nobody_s_connections(around: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTION_WAREHOUSE", "postgres://u:p@production:5432/ledger")
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", "elsewhere")
    monkeypatch.setenv("SEAMLINE_TEST_S3", "the server that somebody names for them")
    seen = around.root / "seen"
    planted = f"""
from seamline import settings
def test_settings_are_isolated():
    known = settings.load()
    assert known.connection_uris == {{}}
    assert "{around.home}" in str(known.data)
    assert known.connections.parent == known.data
    assert known.declarations.name == "include"
    assert settings.process_environment()["SEAMLINE_TEST_S3"] == "the server that somebody names for them"
    open("{seen}", "w").write(str(known.ports.base))
"""
    (outcome,) = run_layers(around, {"isolated": planted})
    assert outcome.passed
    assert int(seen.read_text()) != settings.PORT_BASE_DEFAULT


def test_a_module_is_compiled_once_for_all_processes_also_where_the_machine_keeps_python_from_writing_it(
    around: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    planted = f"""
import sys
def test_what_is_compiled_is_kept():
    assert (sys.dont_write_bytecode, sys.pycache_prefix) == (False, "{around.home / "bytecode"}")
"""
    (outcome,) = run_layers(around, {"compiled": planted})
    assert outcome.passed


def leaving_a_process(pid_file: Path, *, then: str = "") -> str:
    """A test whose child reads from a pipe whose other end it holds itself, so it waits until somebody ends it."""
    return f"""
import os, signal, subprocess, sys
def test_something_is_left_running():
    reading, _ = os.pipe()
    left = subprocess.Popen([sys.executable, "-c", "input()"], stdin=reading, pass_fds=[_], start_new_session=True)
    open("{pid_file}", "w").write(str(left.pid))
    {then}
"""


def has_ended(pid: int) -> bool:
    """Its new parent may not have taken notice yet."""
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def test_a_process_that_a_test_leaves_is_ended(around: Settings, capsys: pytest.CaptureFixture[str]) -> None:
    pid_file = around.root / "pid"
    run_layers(around, {"leaves": leaving_a_process(pid_file)})
    assert "left processes running: 1" in capsys.readouterr().out
    assert has_ended(int(pid_file.read_text()))


def test_a_session_that_is_interrupted_ends_what_its_tests_had_started(around: Settings) -> None:
    pid_file = around.root / "pid"
    interrupt = "os.kill(os.getppid(), signal.SIGTERM); signal.pause()"
    with pytest.raises(KeyboardInterrupt):
        run_layers(around, {"interrupted": leaving_a_process(pid_file, then=interrupt)})
    assert has_ended(int(pid_file.read_text()))


def test_a_block_of_ports_with_one_taken_is_not_chosen(around: Settings) -> None:
    base = free_port_base(around.home)
    ports = [port for part in COMPONENTS for port in part.ports(Ports(base)).values()]
    assert len(ports) == len(set(ports)) == 6
    for port in ports:
        with socket.socket() as one:
            one.bind(("127.0.0.1", port))


def test_sessions_are_drawn_one_at_a_time(around: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def draw(home: Path) -> int:
        with (home / "test-session.lock").open("a") as lock, pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        seen.append(home)
        return free_port_base(home)

    monkeypatch.setattr("seamline.stack.test_session.free_port_base", draw)
    with TestSession(around, python=Path(sys.executable)):
        assert seen == [around.home]
        with (around.home / "test-session.lock").open("a") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_block_of_ports_that_a_test_holds_is_given_to_nobody_while_its_server_is_down(around: Settings) -> None:
    with held_port_base(around.home) as base:
        for _ in range(200):
            assert free_port_base(around.home) != base
        with TestSession(around, python=Path(sys.executable)):
            assert str(base) in {folder.name for folder in kept(around)}
    assert not kept(around)


def test_two_sessions_of_one_checkout_share_nothing(around: Settings) -> None:
    with TestSession(around, python=Path(sys.executable)):
        (first,) = kept(around)
        for _ in range(200):
            assert free_port_base(around.home) != int(first.name)
        with TestSession(around, python=Path(sys.executable)):
            assert len(kept(around)) == 2
        assert kept(around) == [first]


def beside(around: Settings, tests: dict[str, str], *, patch: pytest.MonkeyPatch) -> SessionBeside:
    """A session beside this one, over planted layers: a program that says what `seamline test` would say."""
    lines = [line for layer, text in tests.items() for line in f"=== {layer}: {text}".splitlines()]
    said = "; ".join(f"print({line!r} + ' ===' * {line.startswith('=')})" for line in lines)
    program = around.root / "seamline_said.py"
    is_red = any("failed" in text for text in tests.values())
    program.write_text(f"{said}\nraise SystemExit({int(is_red)})\n", encoding="utf-8")
    made = SessionBeside([Layer(name) for name in tests], number=1, pytest_arguments="")
    patch.setattr(made, "_command", [sys.executable, str(program)])
    return made


def test_what_ran_beside_counts_as_much(around: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with beside(around, {"one": "3 passed in 1.00s", "two": "4 passed in 2.00s"}, patch=monkeypatch) as both:
        assert [(one.lines[0].strip("= "), one.passed) for one in both.outcomes()] == [
            ("one: 3 passed in 1.00s", True),
            ("two: 4 passed in 2.00s", True),
        ]
    with beside(around, {"one": "3 passed in 1.00s", "two": "1 failed in 2.00s\nFAILED x"}, patch=monkeypatch) as red:
        assert not any(one.passed for one in red.outcomes())
        assert [one.lines[1:] for one in red.outcomes()] == [[], ["FAILED x"]]


def test_a_layer_beside_of_which_nothing_is_said_has_not_passed(
    around: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with SessionBeside([Layer("one")], number=1, pytest_arguments="") as silent:
        monkeypatch.setattr(silent, "_said", {})
        assert silent._process is not None  # noqa: SLF001
        silent._process.terminate()  # noqa: SLF001
        (outcome,) = silent.outcomes()
    assert not outcome.passed
    assert "its session ended with exit code" in outcome.said


def test_whatever_ends_a_session_early_ends_the_one_beside_it(
    around: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = around.root / "waits.py"
    program.write_text("import threading\nprint('begun', flush=True)\nthreading.Event().wait()\n", encoding="utf-8")
    made = SessionBeside([Layer("one")], number=1, pytest_arguments="")
    monkeypatch.setattr(made, "_command", [sys.executable, str(program)])
    with pytest.raises(KeyboardInterrupt), made:
        raise KeyboardInterrupt
    assert made._process is not None  # noqa: SLF001
    assert made._process.poll() is not None  # noqa: SLF001


def test_without_names_each_layer_runs_once_in_one_of_the_sessions(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []

    class Session:
        def __init__(self, *layers: Any, **_: Any) -> None:
            self.layers = [layer for one in layers if isinstance(one, list) for layer in one]

        def __enter__(self) -> "Session":
            return self

        def __exit__(self, *_: object) -> None: ...

        def run(self, layer: Layer, _: Any) -> Outcome:
            ran.append(layer.name)
            return Outcome(layer.name, passed=True, said="")

        def stop_servers(self) -> None: ...

        def outcomes(self) -> list[Outcome]:
            return [self.run(layer, None) for layer in self.layers]

    monkeypatch.setattr("seamline.cli.test.TestSession", Session)
    monkeypatch.setattr("seamline.cli.test.SessionBeside", Session)
    assert main(["test"]) == 0
    assert sorted(ran) == sorted(layer.name for layer in LAYERS if not layer.is_by_name_only)
    ran.clear()
    assert main(["test", "spark", "unit"]) == 0
    assert sorted(ran) == ["spark", "unit"]


def test_an_unknown_layer_is_answered_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["test", "integraton"]) == 2
    assert "Did you mean `integration`?" in capsys.readouterr().err


def test_every_folder_of_tests_is_a_layer(checkout: Path) -> None:
    tests = {path.parent.relative_to(checkout / "tests").as_posix() for path in (checkout / "tests").rglob("test_*.py")}
    assert tests <= {layer.path for layer in LAYERS}


def test_without_names_all_layers_run_but_those_that_only_run_by_name() -> None:
    left_out = {layer.name for layer in LAYERS} - {layer.name for layer in chosen_layers([])}
    assert left_out == {"browser", "compose", "fault", "soak"}


def test_a_named_layer_runs_alone_also_one_that_only_runs_by_name() -> None:
    assert [layer.name for layer in chosen_layers(["fault"])] == ["fault"]
    assert [layer.name for layer in chosen_layers(["simulator", "e2e"])] == ["e2e", "simulator"]


def test_the_help_names_the_layer_that_only_runs_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["test", "--help"])
    assert "all of them but browser, fault, soak" in " ".join(capsys.readouterr().out.split())


def test_a_layer_in_a_folder_of_another_name_is_found(around: Settings) -> None:
    folder = around.root / "tests" / "deep" / "inside"
    folder.mkdir(parents=True)
    (folder / "test_planted.py").write_text(PASSES, encoding="utf-8")
    with TestSession(around, python=Path(sys.executable)) as session:
        outcome = session.run(Layer("named", folder="deep/inside"), ["-p", "no:cacheprovider"])
    assert outcome.passed
    assert " named: 1 passed" in outcome.lines[0]


def test_every_make_target_calls_a_command_that_exists(checkout: Path) -> None:
    called = re.findall(r"^\t\./seamline (\w+)", (checkout / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert called
    assert set(called) <= set(COMMANDS)


def test_continuous_integration_runs_the_same_command(checkout: Path) -> None:
    script = checkout / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "exec ./seamline test" in script.read_text(encoding="utf-8")


def test_a_layer_that_cannot_run_on_this_machine_says_why_and_has_not_passed(around: Settings) -> None:
    planted = f"""
import pytest
@pytest.fixture(scope="session")
def engine():
    pytest.exit("not run: no engine can start here", returncode={NOT_RUN})
def test_needs_it(engine): ...
"""
    cannot, next_one = run_layers(around, {"cannot": planted, "next": PASSES})
    assert (cannot.passed, next_one.passed) == (False, True)
    assert cannot.said == "not run: no engine can start here"
    assert cannot.lines[0].strip("= ") == "cannot: not run: no engine can start here"


def filters_of_calls() -> int:
    """Of this process. The layer that this test runs in may be below one already."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("Seccomp_filters:")))


def test_only_a_layer_that_runs_by_name_waits_for_the_disk(around: Settings) -> None:
    planted = f"""
from pathlib import Path
def test_it_is_below_no_other_filter():
    assert "Seccomp_filters:\t{filters_of_calls()}\\n" in Path("/proc/self/status").read_text()
"""
    (here,) = run_layers(around, {"here": planted})
    with TestSession(around, python=Path(sys.executable)) as session:
        by_name = session.run(Layer("here", is_by_name_only=True), ["-p", "no:cacheprovider"])
    assert (here.passed, by_name.passed) == (False, True)
    assert here.said.startswith("1 failed")


def test_below_the_filter_a_flush_is_answered_at_once() -> None:
    # A pipe cannot be flushed, so it is not asked to.
    flush = "import os; os.fsync(os.pipe()[1])"
    command = [sys.executable, "-m", "seamline.stack.without_fsync", sys.executable, "-c", flush]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
