"""A process is known by an identity that two containers cannot share, and known dead only where it could be seen."""

import os
import subprocess
from dataclasses import replace

import pytest

from seamline.adapters.process_identity import space, started_ticks
from seamline.platform.host_lease import Holder, holder_of, holds, is_known_dead, this_process


def test_this_process_is_itself_each_time_and_comes_back_from_its_text() -> None:
    mine = this_process()
    assert mine == this_process() == holder_of(str(mine))
    assert (mine.process, mine.started, mine.space) == (os.getpid(), started_ticks(os.getpid()), space())
    assert holds(mine, process=os.getpid())
    assert not holds(mine, process=os.getppid())
    assert not is_known_dead(mine)


def test_a_process_that_has_ended_here_is_known_dead_also_while_it_is_a_zombie() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        started = started_ticks(child.pid)
        assert started is not None
        holder = replace(this_process(), process=child.pid, started=started)
        assert not is_known_dead(holder)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        assert is_known_dead(holder), "nobody has asked for its exit code yet"
    assert is_known_dead(holder)


def test_a_later_process_with_the_same_number_is_not_the_one_before() -> None:
    mine = this_process()
    assert is_known_dead(replace(mine, started=mine.started - 1))
    assert not holds(replace(mine, started=mine.started - 1), process=mine.process)


@pytest.mark.parametrize(
    "elsewhere",
    [
        {"space": "another-boot.4026531836.4026531834"},
        {"space": ""},
        {"machine": "another-host"},
    ],
    ids=["another container", "a host of an earlier version", "another machine"],
)
def test_of_a_process_that_could_not_be_seen_nothing_is_known(elsewhere: dict[str, str]) -> None:
    """Neither that it is dead, though there is no such process here, nor that it is ours, though there is."""
    twin = replace(this_process(), **elsewhere)
    for one in (twin, replace(twin, started=twin.started - 1), replace(twin, process=2**30)):
        assert not is_known_dead(one)
        assert not holds(one, process=one.process)


def test_the_holder_of_an_earlier_version_is_read() -> None:
    assert holder_of("node1/77/1795338657") == Holder("node1", 77, 1795338657)
    assert holder_of("node1/77/1795338657").in_words == "node1, process 77"
