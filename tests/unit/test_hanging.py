"""Whom the watch ends, and whom it leaves: over real sockets, and a server that is a function."""

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from seamline.adapters.hanging import SocketWatch
from tests.waiting import wait_until

SILENCE_S = 0.3
LOST = "its answer was lost"


@dataclass
class Pair:
    client: socket.socket
    server: socket.socket

    def watched(self, look: Callable[[], str], *, limit_s: float = 60.0) -> SocketWatch:
        return SocketWatch(self.client.fileno(), name="the server", look=look, silence_s=SILENCE_S, limit_s=limit_s)


@pytest.fixture
def pair() -> Iterator[Pair]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = socket.create_connection(listener.getsockname())
        server, _ = listener.accept()
    with closing(client), closing(server):
        client.settimeout(20)
        yield Pair(client, server)


def test_a_wait_of_which_the_server_knows_nothing_is_ended_by_name(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    with closing(pair.watched(lambda: LOST)) as watch, watch.waiting():
        assert pair.client.recv(1) == b""
    assert watch.ended.startswith("no answer of the server for ")
    assert watch.ended.endswith(LOST)
    assert watch.ended in caplog.text


def test_a_server_that_works_is_waited_for_up_to_the_limit(pair: Pair) -> None:
    looks = []

    def look() -> str:
        looks.append(1)
        return ""

    with closing(pair.watched(look, limit_s=5 * SILENCE_S)) as watch, watch.waiting():
        assert pair.client.recv(1) == b""
    assert "works on it for longer than its limit" in watch.ended
    assert len(looks) >= 2


def test_a_look_that_hangs_itself_says_that_the_server_answers_nobody(pair: Pair) -> None:
    never = threading.Event()

    def look() -> str:
        never.wait()
        return ""

    with closing(pair.watched(look)) as watch, watch.waiting():
        assert pair.client.recv(1) == b""
    assert "does not answer another session either" in watch.ended
    never.set()


def test_a_session_at_which_nobody_waits_is_left_alone(pair: Pair) -> None:
    looks: list[int] = []
    other = Pair(*socket.socketpair())
    with (
        closing(pair.watched(lambda: looks.append(1) or LOST)) as idle,  # type: ignore[func-returns-value]
        closing(other.watched(lambda: LOST)) as busy,
        busy.waiting(),
    ):
        assert other.client.recv(1) == b""
    assert not looks
    assert not idle.ended


def test_bytes_that_came_and_were_not_read_are_our_own_delay(pair: Pair) -> None:
    other = Pair(*socket.socketpair())
    pair.server.sendall(b"answer")
    with (
        closing(pair.watched(lambda: LOST)) as slow,
        slow.waiting(),
        closing(other.watched(lambda: LOST)) as hung,
        hung.waiting(),
    ):
        # It began at the same moment, and nothing has come for it.
        wait_until(lambda: hung.ended, timeout_s=20, what="the other wait to be ended")
        assert not slow.ended
    assert pair.client.recv(6) == b"answer"


def test_an_answer_that_goes_on_coming_is_no_silence(pair: Pair) -> None:
    other = Pair(*socket.socketpair())
    with (
        closing(pair.watched(lambda: LOST)) as flowing,
        flowing.waiting(),
        closing(other.watched(lambda: LOST)) as hung,
        hung.waiting(),
    ):

        def is_other_ended() -> bool:
            pair.server.sendall(b"x")
            pair.client.recv(1)
            return bool(hung.ended)

        wait_until(is_other_ended, timeout_s=20, what="the other wait to be ended")
        assert not flowing.ended
