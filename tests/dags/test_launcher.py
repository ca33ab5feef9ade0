"""Drivers outlive whoever started them, and one name never has two of them."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.driver_run import DriverStatus
from seamline.domain.errors import ConfigError, Refused
from seamline_airflow.launcher import (
    ATTEMPTS_KEPT,
    DetachedLauncher,
    DriverHandle,
    DriverJob,
    driver_environment,
    folder_name,
    read_new,
    require_private,
)
from tests.waiting import wait_until

_ENVIRONMENT = driver_environment(settings.process_environment())


@pytest.fixture
def launcher(tmp_path: Path) -> DetachedLauncher:
    return DetachedLauncher(tmp_path, grace_s=2.0)


def _job(script: str, name: str = "dag/run/task/-1") -> DriverJob:
    return DriverJob(name, ["sh", "-c", script], _ENVIRONMENT)


def _ended(launcher: DetachedLauncher, handle: DriverHandle) -> DriverStatus:
    return wait_until(
        lambda: status if (status := launcher.status(handle)) is not DriverStatus.RUNNING else None,
        timeout_s=10,
        what="the driver to end",
    )


def test_the_exit_code_and_the_log_of_a_driver_are_kept(launcher: DetachedLauncher) -> None:
    handle = launcher.submit(_job("echo one; echo two >&2; exit 3"))
    assert _ended(launcher, handle) is DriverStatus.FAILED
    assert launcher.exit_code(handle) == 3
    assert read_new(handle.log, 0)[0] == ["one", "two"]


def test_a_driver_that_ends_well_is_a_success(launcher: DetachedLauncher) -> None:
    assert _ended(launcher, launcher.submit(_job("true"))) is DriverStatus.SUCCEEDED


def test_a_second_submit_adopts_the_living_driver(launcher: DetachedLauncher) -> None:
    first = launcher.submit(_job("exec tail -f /dev/null"))
    assert launcher.submit(_job("exit 1")) == first
    launcher.kill(first)


def test_a_driver_outlives_the_process_that_started_it(tmp_path: Path, launcher: DetachedLauncher) -> None:
    starter = (
        "import pathlib, sys; from seamline import settings; from seamline_airflow.launcher import *\n"
        "job = DriverJob('n', ['tail', '-f', '/dev/null'], driver_environment(settings.process_environment()))\n"
        "print(DetachedLauncher(pathlib.Path(sys.argv[1])).submit(job).pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", starter, str(tmp_path)], capture_output=True, text=True, check=True)
    adopted = launcher.submit(_job("exit 1", name="n"))
    assert adopted.pid == int(done.stdout)
    assert os.getsid(adopted.pid) == adopted.pid
    launcher.kill(adopted)
    assert not Path(f"/proc/{adopted.pid}").exists() or launcher.status(adopted) is not DriverStatus.RUNNING


def test_a_driver_that_ended_is_not_adopted_but_started_again(launcher: DetachedLauncher) -> None:
    first = launcher.submit(_job("true"))
    _ended(launcher, first)
    second = launcher.submit(_job("true"))
    assert second.folder != first.folder
    _ended(launcher, second)


def test_a_kill_ends_every_process_of_the_driver(launcher: DetachedLauncher) -> None:
    handle = launcher.submit(_job("sh -c 'trap \"\" TERM; tail -f /dev/null' & echo $!; wait"))
    wait_until(lambda: read_new(handle.log, 0)[0], timeout_s=10, what="the child to start")
    child = int(read_new(handle.log, 0)[0][0])
    launcher.kill(handle)
    assert launcher.status(handle) is not DriverStatus.RUNNING
    assert not Path(f"/proc/{child}").exists() or "Z" in Path(f"/proc/{child}/stat").read_text().split(")")[1]


def test_a_driver_killed_with_its_wrapper_is_lost_and_replaced(launcher: DetachedLauncher) -> None:
    handle = launcher.submit(_job("exec tail -f /dev/null"))
    os.kill(handle.pid, signal.SIGKILL)
    assert wait_until(lambda: launcher.status(handle) is DriverStatus.LOST, timeout_s=10, what="the loss")
    replaced = launcher.submit(_job("true"))
    assert replaced.pid != handle.pid
    # What went on without its wrapper is ended first: two drivers of one name never run side by side.
    assert not [p for p in Path("/proc").iterdir() if p.name.isdecimal() and _session(p) == handle.pid]
    _ended(launcher, replaced)


def test_a_reused_process_id_is_not_the_driver(launcher: DetachedLauncher) -> None:
    handle = launcher.submit(_job("exec tail -f /dev/null"))
    other = DriverHandle(handle.pid, handle.kernel_start + 1, handle.boot_id, handle.folder)
    assert launcher.status(other) is DriverStatus.LOST
    launcher.kill(other)
    assert launcher.status(handle) is DriverStatus.RUNNING
    launcher.kill(handle)


def test_a_handle_from_before_a_restart_of_the_machine_is_lost(launcher: DetachedLauncher) -> None:
    handle = launcher.submit(_job("true"))
    _ended(launcher, handle)
    (Path(handle.folder) / "exit_code").unlink()
    assert (
        launcher.status(DriverHandle(1, handle.kernel_start, "another boot", handle.folder, "another boot.1.2"))
        is DriverStatus.LOST
    )


def test_a_driver_of_another_container_is_adopted_while_it_lives_and_never_signalled(
    launcher: DetachedLauncher,
) -> None:
    """Both have the folder. Their process ids have nothing to do with each other."""
    mine = launcher.submit(_job("exec tail -f /dev/null"))
    process = Path(mine.folder) / "process"
    process.write_text(process.read_text().replace(mine.space, "another-boot.1.2"))
    theirs = launcher.submit(_job("exit 1"))
    assert (theirs.pid, theirs.folder, theirs.space) == (mine.pid, mine.folder, "another-boot.1.2")
    assert launcher.status(theirs) is DriverStatus.RUNNING
    with pytest.raises(Refused, match=f"runs in another container, as its process {mine.pid}"):
        launcher.kill(theirs)
    # Another one of ours has that number by now: it is not the driver.
    innocent = replace(theirs, pid=os.getpid())
    os.kill(mine.pid, signal.SIGKILL)
    wait_until(lambda: launcher.status(theirs) is DriverStatus.LOST, timeout_s=10, what="the loss")
    launcher.kill(innocent)
    assert launcher.submit(_job("true")).folder != mine.folder
    launcher.kill(mine)


def test_a_handle_of_an_earlier_version_is_still_the_driver(launcher: DetachedLauncher) -> None:
    handle = launcher.submit(_job("exec tail -f /dev/null"))
    known = {name: value for name, value in handle.to_json().items() if name != "space"}
    assert launcher.status(DriverHandle.from_json(known)) is DriverStatus.RUNNING
    launcher.kill(DriverHandle.from_json(known))
    assert launcher.status(handle) is not DriverStatus.RUNNING


def test_old_launches_are_cleared_away(launcher: DetachedLauncher) -> None:
    for _ in range(ATTEMPTS_KEPT + 2):
        handle = launcher.submit(_job("true"))
        _ended(launcher, handle)
    kept = [entry.name for entry in Path(handle.folder).parent.iterdir() if entry.name.isdecimal()]
    assert sorted(map(int, kept)) == [3, 4, 5, 6, 7]


def test_a_handle_survives_json() -> None:
    handle = DriverHandle(1, 2, "boot", "/folder")
    assert DriverHandle.from_json(handle.to_json()) == handle


def test_airflows_own_settings_do_not_reach_a_driver() -> None:
    given = {
        "AIRFLOW__CORE__FERNET_KEY": "k",
        "AIRFLOW_HOME": "h",
        "_AIRFLOW_X": "x",
        "PATH": "p",
        "SEAMLINE_DATA": "d",
    }
    assert driver_environment(given) == {"PATH": "p", "SEAMLINE_DATA": "d"}


def test_a_secrets_file_that_others_can_read_is_refused(tmp_path: Path) -> None:
    secrets = tmp_path / "connections.json"
    require_private(secrets)
    secrets.write_text("{}")
    secrets.chmod(0o644)
    with pytest.raises(ConfigError, match="chmod 600"):
        require_private(secrets)
    secrets.chmod(0o600)
    require_private(secrets)


def test_names_that_differ_only_in_odd_letters_get_different_folders() -> None:
    assert folder_name("a/b") != folder_name("a-b")
    assert "/" not in folder_name("scheduled__2026-11-19T00:30:00+08:00/../x")


def test_a_half_written_line_is_read_when_it_is_whole(tmp_path: Path) -> None:
    log = tmp_path / "driver.log"
    log.write_bytes(b"one\ntw")
    lines, offset = read_new(log, 0)
    assert (lines, offset) == (["one"], 4)
    log.write_bytes(b"one\ntwo\n")
    assert read_new(log, offset) == (["two"], 8)


def _session(process: Path) -> int:
    try:
        fields = (process / "stat").read_text().rsplit(")", 1)[1].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return 0 if fields[0] == "Z" else int(fields[3])
