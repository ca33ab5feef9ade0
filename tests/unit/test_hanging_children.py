"""A child that hangs behind Python's lock, or stands still, is ended by its parent and named."""

import os
import signal
from multiprocessing.connection import Connection as Pipe

from seamline.adapters.children import Message, native_wait, running, set_table

SILENCE_S = 0.3


def waits(pipe: Pipe) -> None:
    set_table("account")
    with native_wait("session 7"):
        pipe.recv()
    pipe.send(Message(0, value="done"))


def stands_still(pipe: Pipe) -> None:
    set_table("account")
    os.kill(os.getpid(), signal.SIGSTOP)
    pipe.send(Message(0, value="done"))


def test_a_child_whose_server_does_not_work_is_ended_by_name() -> None:
    asked: list[str] = []

    def look(waits_for: str) -> str:
        asked.append(waits_for)
        return "its answer was lost"

    with running([waits], look=look, silence_s=SILENCE_S) as children:
        (message,) = children.messages()
    assert message.error is not None
    assert "the process that reads table account" in str(message.error)
    assert "its answer was lost" in str(message.error)
    assert message.error.table == "account"
    assert asked == ["session 7"]


def test_a_child_whose_server_works_is_waited_for() -> None:
    looks: list[str] = []

    def look(waits_for: str) -> str:
        looks.append(waits_for)
        if len(looks) == 3:
            children.send(0, "go on")
        return ""

    with running([waits], look=look, silence_s=SILENCE_S) as children:
        assert [message.value for message in children.messages()] == ["done", None]
    assert len(looks) >= 3


def test_a_child_that_stands_still_is_ended_by_name() -> None:
    with running([stands_still], silence_s=SILENCE_S) as children:
        (message,) = children.messages()
    assert "table account" in str(message.error)
    assert "stands still" in str(message.error)
