"""The parts of a soak that need no server: its journal, the order of its faults, the link that it cuts."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from tests.fault.soak.journal import Begun, Done, Ended, Journal, page
from tests.fault.soak.link import Link, State, link_to
from tests.fault.soak.nemesis import FAULTS, all_suspended
from tests.fault.soak.test_soak import fault_of, reported_if_it_fails
from tests.waiting import wait_until

RUN = Begun("postgres", "abc")
FAULT = Done("postgres", "Kafka killed", 1.0, 12.5, 20.0, 40)
END = Ended("postgres", 10, 8, 20, 44, ())


def test_a_soak_goes_on_with_the_seed_and_the_faults_of_its_journal(tmp_path: Path) -> None:
    file = tmp_path / "soak.jsonl"
    first = Journal.open(file, seed="17")
    first.add(RUN)
    first.add(FAULT)
    first.add(END)
    again = Journal.open(file, seed="another")
    assert (again.seed, again.runs, again.faults, again.ends) == ("17", [RUN], [FAULT], [END])
    assert (again.of("postgres"), again.of("mariadb")) == ([FAULT], [])


def test_the_page_counts_what_went_wrong_of_both_kinds(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "soak.jsonl", seed="17")
    journal.add(FAULT)
    journal.add(END)
    assert "**0 violations**" in page(journal)
    journal.add(Done("postgres", "Kafka killed", 1.0, 70.0, 90.0, 40, ("torn: a transfer",)))
    journal.add(Ended("postgres", 1_010, 1_800, 20, 80, ("lost: a row",)))
    text = page(journal)
    assert "2 faults of 1 kinds" in text
    assert "1,808 transfers committed, 124 commits of the destination checked" in text
    assert "**2 violations**; slowest recovery 70 s" in text
    assert "- torn: a transfer" in text
    assert "- lost: a row" in text


def test_a_soak_of_which_no_run_came_to_its_end_has_failed(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "soak.jsonl", seed="17")
    journal.add(RUN)
    journal.add(FAULT)
    assert "**1 violations**" in page(journal)
    assert "- postgres: no run came to its end" in page(journal)


def test_runs_that_were_broken_off_are_reported(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "soak.jsonl", seed="17")
    for one in (RUN, FAULT, RUN, FAULT, END):
        journal.add(one)
    assert journal.violations("postgres") == []
    assert "1 of 2 runs were broken off before that" in page(journal)
    journal.add(END)
    assert "broken off" not in page(journal)


@pytest.mark.parametrize("error", [AssertionError("hangs"), RuntimeError("no such table")])
def test_whatever_ends_a_soak_stands_in_its_journal(tmp_path: Path, error: Exception) -> None:
    journal = Journal.open(tmp_path / "soak.jsonl", seed="17")
    with pytest.raises(type(error)), reported_if_it_fails(journal, "postgres", "Kafka killed"):
        raise error
    assert journal.violations("postgres")[0] == f"Kafka killed: {error!r}"


@pytest.mark.parametrize("kind", ["mariadb", "postgres"])
def test_every_fault_of_a_source_comes_once_before_any_comes_again(kind: str) -> None:
    possible = {fault.name for fault in FAULTS if kind in fault.kinds}
    assert len(possible) >= 12
    for turn in (0, 1):
        text = [fault_of(FAULTS, "17", kind, turn * len(possible) + number).name for number in range(len(possible))]
        assert sorted(text) == sorted(possible)
        assert text == [
            fault_of(FAULTS, "17", kind, turn * len(possible) + number).name for number in range(len(possible))
        ]


@pytest.fixture
def server() -> Iterator[socket.socket]:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        listener.settimeout(10)
        yield listener


@pytest.fixture
def link(server: socket.socket) -> Iterator[Link]:
    with link_to("127.0.0.1", server.getsockname()[1]) as made:
        yield made


def connected(link: Link, server: socket.socket) -> tuple[socket.socket, socket.socket]:
    client = socket.create_connection(("127.0.0.1", link.port), timeout=10)
    far, _ = server.accept()
    far.settimeout(10)
    return client, far


def test_an_open_link_carries_both_ways(link: Link, server: socket.socket) -> None:
    client, far = connected(link, server)
    client.sendall(b"there")
    assert far.recv(10) == b"there"
    far.sendall(b"back")
    assert client.recv(10) == b"back"


def test_a_link_that_is_cut_resets_what_it_carried(link: Link, server: socket.socket) -> None:
    client, _ = connected(link, server)
    link.state = State.CUT
    with pytest.raises(ConnectionResetError):
        client.recv(10)


def test_an_answer_that_a_link_holds_back_is_lost_with_its_reset(link: Link, server: socket.socket) -> None:
    client, far = connected(link, server)
    link.state = State.NO_ANSWERS
    client.sendall(b"COMMIT")
    assert far.recv(10) == b"COMMIT"
    far.sendall(b"done")
    link.reset()
    with pytest.raises(ConnectionResetError):
        client.recv(10)
    wait_until(lambda: link.has_reset, timeout_s=10, what="the reset")
    link.state = State.OPEN
    again, far = connected(link, server)
    far.sendall(b"hello")
    assert again.recv(10) == b"hello"


def test_a_silent_link_keeps_what_is_sent_until_it_speaks_again(link: Link, server: socket.socket) -> None:
    link.state = State.SILENT
    client, far = connected(link, server)
    client.sendall(b"late")
    far.settimeout(0.3)
    with pytest.raises(TimeoutError):
        far.recv(10)
    link.state = State.OPEN
    far.settimeout(10)
    assert far.recv(10) == b"late"


# ---- processes ------------------------------------------------------------------------------------------------------


def test_a_process_sleeps_with_all_that_come_from_it_and_all_wake_also_after_an_error() -> None:
    with subprocess.Popen(["bash", "-c", "sleep 60 & (sleep 60; true) & wait"]) as shell:
        leader = psutil.Process(shell.pid)
        wait_until(lambda: len(leader.children(recursive=True)) == 3, timeout_s=10, what="two sleepers and a shell")
        family = [leader, *leader.children(recursive=True)]

        def asleep() -> int:
            return sum(process.status() == psutil.STATUS_STOPPED for process in family)

        with pytest.raises(ZeroDivisionError), all_suspended(leader):
            wait_until(lambda: asleep() == len(family), timeout_s=10, what="all of them to sleep")
            raise ZeroDivisionError
        wait_until(lambda: asleep() == 0, timeout_s=10, what="all of them to be awake")
        for process in family:
            process.kill()
