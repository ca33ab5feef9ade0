import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from seamline.adapters.failpoints import NAMES, ArmedFailpoints, from_environment
from seamline.domain.errors import ConfigError, TransientError
from tests.dags.places import PLACES
from tests.fault.real import places
from tests.fault.real.places import MET_HERE
from tests.waiting import wait_until


def test_every_place_is_met_by_the_fault_layer_or_among_the_dags() -> None:
    assert MET_HERE | PLACES.keys() == NAMES
    assert MET_HERE.isdisjoint(PLACES)


def test_each_kind_of_place_has_its_cases_and_each_bank_of_cases_is_held_against_its_source_at_the_end(
    checkout: Path,
) -> None:
    texts = [file.read_text(encoding="utf-8") for file in (checkout / "tests/fault/real").glob("test_*.py")]
    cases = [text for text in texts if "bank.disturb_" in text]
    assert len(cases) == 5
    assert all("assert_all_is_right_at_the_end(bank, tally)" in text for text in cases)
    met = re.findall(r'parametrize\("failpoint", (\w+)\)|disturb_onboarding\((SLOT), mode\)', "".join(cases))
    named = {one or other for one, other in met}
    assert named == {
        "STREAM",
        "SLOT",
        "ONBOARDING",
        "JOINING",
        "COMPARING",
        "CAPTURING",
        "LAKE_STREAM",
        "LAKE_ONBOARDING",
        "LAKE_CUTTING",
    }
    assert set().union(*(placed(name) for name in named)) == MET_HERE


def placed(name: str) -> set[str]:
    found = getattr(places, name)
    return {found} if isinstance(found, str) else {*found}


def test_nothing_is_armed_unless_the_environment_says_so() -> None:
    assert from_environment({"PATH": "/bin"}) is None


def test_a_place_that_is_not_armed_is_passed_and_counted() -> None:
    points = ArmedFailpoints()
    points.reach("app.fetched")
    points.reach("app.fetched")
    assert points.hits == {"app.fetched": 2}


def test_a_place_fails_at_the_hit_that_was_armed_and_at_no_other() -> None:
    points = ArmedFailpoints("app.dml_half=error@2")
    points.reach("app.dml_half")
    with pytest.raises(TransientError, match=r"app\.dml_half"):
        points.reach("app.dml_half")
    points.reach("app.dml_half")


def test_without_a_number_a_place_fails_each_time() -> None:
    points = ArmedFailpoints("app.dml_half=error, app.hold=error")
    for name in ("app.dml_half", "app.hold", "app.dml_half"):
        with pytest.raises(TransientError):
            points.reach(name)


@pytest.mark.parametrize("text", ["app.nowhere=error", "app.hold=explode", "app.hold", "app.hold=error@x"])
def test_a_wrong_arming_is_refused_with_the_names_there_are(text: str) -> None:
    with pytest.raises(ConfigError, match="not a failpoint") as caught:
        ArmedFailpoints(text)
    assert "app.commit_sent" in caught.value.hint


def test_a_file_arms_a_process_that_runs_and_shows_what_fired(tmp_path: Path) -> None:
    file = tmp_path / "failpoints"
    points = from_environment({"SEAMLINE_FAILPOINTS_FILE": str(file)})
    assert points is not None
    points.reach("app.fetched")
    file.write_text("app.fetched=error")
    with pytest.raises(TransientError):
        points.reach("app.fetched")
    assert (tmp_path / "failpoints.fired").read_text() == "app.fetched\n"


def test_a_waiting_place_goes_on_once_it_is_disarmed(tmp_path: Path) -> None:
    file = tmp_path / "failpoints"
    file.write_text("app.hold=wait")
    points = ArmedFailpoints(file=file)
    waiting = threading.Thread(target=points.reach, args=("app.hold",))
    waiting.start()
    fired = tmp_path / "failpoints.fired"
    wait_until(fired.is_file, timeout_s=10, what="the failpoint to be reached")
    assert waiting.is_alive()
    file.write_text("\n")
    os.utime(file, ns=(1, 1))
    waiting.join(timeout=10)
    assert not waiting.is_alive()


_CHILD = "from seamline.adapters.failpoints import ArmedFailpoints as A; A('app.fetched={mode}').reach('app.fetched')"


def test_a_killed_process_ends_at_once() -> None:
    child = subprocess.run([sys.executable, "-c", _CHILD.format(mode="kill9")], check=False, timeout=60)
    assert child.returncode == -signal.SIGKILL


def test_a_stopped_process_goes_on_when_it_is_continued() -> None:
    with subprocess.Popen([sys.executable, "-c", _CHILD.format(mode="stop")]) as child:
        wait_until(
            lambda: psutil.Process(child.pid).status() == psutil.STATUS_STOPPED, timeout_s=60, what="the child to stop"
        )
        child.send_signal(signal.SIGCONT)
        assert child.wait(timeout=60) == 0
