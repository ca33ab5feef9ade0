"""Tasks are forked with their libraries loaded, and one that ends wakes the scheduler."""

import ctypes
import importlib.util
import logging
import multiprocessing
import os
import signal
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from airflow.executors import local_executor
from airflow.executors.base_executor import BaseExecutor
from airflow.executors.local_executor import LocalExecutor
from airflow.sdk.module_loading import import_string

from seamline.stack.server_settings import AIRFLOW
from seamline_airflow import ready_executor
from seamline_airflow.ready_executor import LIBRARIES, ReadyLocalExecutor
from tests.waiting import wait_until


class Waits:
    """Real waits, of which each is noted; `before` is done when one has begun."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.before = 0, lambda: None
        self._wait = ready_executor.wait
        monkeypatch.setattr(ready_executor, "wait", self)

    def __call__(self, readers: Any, timeout: float) -> Any:
        self.count += 1
        self.before()
        return self._wait(readers, timeout)


@pytest.fixture
def executor(monkeypatch: pytest.MonkeyPatch) -> ReadyLocalExecutor:
    """Without a worker and without its libraries; a look that no task wakes would take an hour."""
    monkeypatch.setattr(ready_executor, "LOOK_EVERY_S", 3600)
    made = ReadyLocalExecutor(parallelism=1)
    made.activity_queue, made.result_queue = multiprocessing.SimpleQueue(), multiprocessing.SimpleQueue()
    made.workers, made._unread_messages = {}, multiprocessing.Value(ctypes.c_uint)
    made._has_sent = made._is_one_killed = False
    return made


def test_a_task_that_ends_wakes_the_scheduler(executor: ReadyLocalExecutor, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[Any] = []
    monkeypatch.setattr(executor, "change_state", lambda key, state: ended.append((key, state)))
    waits = Waits(monkeypatch)
    waits.before = lambda: executor.result_queue.put(("a task", "success", None))
    executor.sync()
    assert ended == [("a task", "success")]


def test_whoever_has_sent_a_task_looks_again_atsoon(
    executor: ReadyLocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = Waits(monkeypatch)
    monkeypatch.setattr(executor, "_check_workers", lambda: None)
    executor._process_workloads([])
    executor.sync()
    assert waits.count == 0
    waits.before = lambda: executor.result_queue.put(("a task", "success", None))
    executor.sync()
    assert waits.count == 1, "the next one waits again"


class _Work:
    """What a worker takes from the queue."""

    running_state, success_state, failure_state, display_name = None, "success", "failed", "work"

    def __init__(self, key: str) -> None:
        self.key = key


def test_a_worker_that_is_killed_while_it_waits_takes_the_queue_with_it_for_a_moment_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ready_executor, "LIBRARIES", ())
    monkeypatch.setattr(ready_executor, "LOOK_EVERY_S", 0.05)
    monkeypatch.setattr(ready_executor, "LOCK_LOST_AFTER_S", 0.5)
    monkeypatch.setattr(local_executor, "get_execution_api_server_url", lambda _: "")
    monkeypatch.setattr(ReadyLocalExecutor, "run_workload", lambda *_, **__: None)
    monkeypatch.setattr(BaseExecutor, "run_workload", lambda *_, **__: None)
    executor = ReadyLocalExecutor(parallelism=2)
    executor.start()
    try:
        holder = soon(lambda: next((pid for pid in executor.workers if _waits_in(pid, "pipe")), 0))
        os.kill(holder, signal.SIGKILL)
        soon(lambda: not executor.workers[holder].is_alive())
        ended: list[Any] = []
        monkeypatch.setattr(executor, "change_state", lambda key, state: ended.append((key, state)))
        executor.queued_tasks["a task"] = work = _Work("a task")  # type: ignore[index,assignment]
        executor._process_workloads([work])
        soon(lambda: executor.sync() or ended)
        assert ended == [("a task", "success")]
    finally:
        executor.end()


soon = partial(wait_until, timeout_s=60, what="the executor", every_s=0.02)


def _waits_in(pid: int, what: str) -> bool:
    return what in Path(f"/proc/{pid}/wchan").read_text()


def test_libraries_are_loaded_before_the_workers_are_forked(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[Any] = []
    monkeypatch.setattr(ready_executor, "load", done.append)
    monkeypatch.setattr(ready_executor.gc, "freeze", lambda: done.append("frozen"))
    monkeypatch.setattr(LocalExecutor, "start", lambda _: done.append("forked"))
    ReadyLocalExecutor(parallelism=1).start()
    assert done == [LIBRARIES, "forked", "frozen"]


def test_they_are_libraries_that_are_here_and_no_code_of_ours() -> None:
    """A task runs what lies in its files when it starts."""
    assert all(importlib.util.find_spec(name) for name in LIBRARIES)
    assert not [name for name in LIBRARIES if name.startswith("seamline")]


def test_a_library_that_is_not_here_ends_no_scheduler(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        ready_executor.load(["no_such_library", "json"])
    assert "no_such_library is not loaded before the tasks" in caplog.text


def test_the_stack_s_settings_name_it() -> None:
    assert import_string(AIRFLOW["AIRFLOW__CORE__EXECUTOR"]) is ReadyLocalExecutor
