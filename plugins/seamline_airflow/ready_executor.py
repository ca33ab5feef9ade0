"""Airflow's LocalExecutor, with the libraries of tasks loaded before its workers are forked, and with an eye on them.

A task's process is forked from a worker, and a worker from the scheduler. What the scheduler has loaded, no task has to
load: Great Expectations alone takes five seconds of a core, and its memory is then shared. Only libraries are loaded,
never code of Seamline: a task runs what lies in its files when it starts.

A worker that waits for a task holds the lock of the queue. One that is killed there, as by the kernel for want of
memory, would take the lock with it, and no task would begin any more: the lock is then given back here.

Airflow's scheduler sleeps after each look that found nothing to do, so that every task of a chain would begin up to
`scheduler_idle_sleep_time` too late. Here it sleeps in the executor, and a task that ends wakes it.
"""

import gc
import importlib
import logging
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from typing import Any

from airflow.executors.local_executor import LocalExecutor

# Between two looks while no task ends: what it then finds was started by a person, a schedule or a trigger. Airflow's
# own sleep follows it (`AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME`).
LOOK_EVERY_S = 1.4
# A task that no worker has taken for so long, after a worker was killed, waits for a lock that nobody holds. A worker
# takes one within milliseconds.
LOCK_LOST_AFTER_S = 30.0
# What our tasks import of others, the slowest first.
LIBRARIES = (
    "great_expectations",
    "airflow.dag_processing.dagbag",
    "airflow.providers.apache.spark.operators.spark_submit",
    "airflow.providers.standard.operators.hitl",
    "psycopg",
)

log = logging.getLogger(__name__)


class ReadyLocalExecutor(LocalExecutor):
    """Set by its name, `AIRFLOW__CORE__EXECUTOR`, on the local stack and in the containers."""

    def start(self) -> None:
        self._has_sent = self._is_one_killed = False
        self._untaken, self._untaken_since = 0, 0.0
        load(LIBRARIES)
        super().start()
        # The scheduler's own collections of garbage would walk through all of them.
        gc.freeze()

    def sync(self) -> None:
        # Whoever has just sent a task may have more to send: the scheduler looks again at once, as it does without us.
        if not self._has_sent:
            wait([self.result_queue._reader], LOOK_EVERY_S)  # type: ignore[attr-defined]
        self._has_sent = False
        super().sync()

    def _check_workers(self) -> None:
        codes = [process.exitcode for process in self.workers.values()]
        self._is_one_killed |= any(code is not None and code < 0 for code in codes)
        super()._check_workers()
        if self._is_one_killed:
            self._give_the_lock_back()

    def _give_the_lock_back(self) -> None:
        untaken, now = self._unread_messages.value, time.monotonic()
        if not untaken or untaken != self._untaken:
            self._untaken, self._untaken_since = untaken, now
            return
        if now - self._untaken_since < LOCK_LOST_AFTER_S:
            return
        self._is_one_killed = False
        try:
            self.activity_queue._rlock.release()  # type: ignore[attr-defined]
        except ValueError:
            return  # nobody holds it
        log.error("a worker was killed with the lock of the queue: %d tasks that waited for it go on", untaken)

    def _process_workloads(self, workload_list: Sequence[Any]) -> None:
        self._has_sent = True
        super()._process_workloads(workload_list)


def load(libraries: Sequence[str]) -> None:
    """Import them. One that is not here is left out: the task that needs it says so."""
    # Hundreds of lines about its own machinery.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    for name in libraries:
        try:
            importlib.import_module(name)
        except (ImportError, RuntimeError, OSError) as error:
            log.warning("%s is not loaded before the tasks: %s", name, error)
