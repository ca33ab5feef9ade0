"""Airflow's processes, each of its own, forked from one that has loaded Airflow and the DAGs already.

What is run is what Airflow runs: a task as `dag.test()` does it, a trigger from the row that its task has left in
Airflow's database. Nothing of the process that started it is needed to do it again.
"""

import asyncio
import multiprocessing
from typing import Any

DAG_ID = "settlement__onboard"
_HERE = "tests.dags.task_process"


def started(work: str, *about: str) -> Any:
    """A process that does `run_task` or `run_trigger`."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([f"{_HERE}_loaded"])
    process = context.Process(target=globals()[work], args=about)
    process.start()
    return process


def run_task(run_id: str, task_id: str) -> None:
    from airflow.sdk.definitions.dag import _run_task

    from tests.dags.task_process_loaded import DAG

    _run_task(ti=task_instance(run_id, task_id), task=DAG.task_dict[task_id])


def run_trigger(run_id: str, task_id: str) -> None:
    """As a triggerer does: the wait is made from its row, and what it says is reported to whoever waits for it."""
    from airflow.models.trigger import Trigger
    from airflow.sdk.module_loading import import_string
    from airflow.utils.session import create_session

    with create_session() as session:
        row = session.get(Trigger, task_instance(run_id, task_id).trigger_id)
        assert row is not None, "nobody waits"
        trigger_id, trigger = row.id, import_string(row.classpath)(**row.kwargs)
    event = asyncio.run(_first_event(trigger))
    Trigger.submit_event(trigger_id, event)


async def _first_event(trigger: Any) -> Any:
    async for event in trigger.run():
        return event
    raise AssertionError("the trigger has ended without a word")


def task_instance(run_id: str, task_id: str) -> Any:
    from airflow.models.taskinstance import TaskInstance
    from airflow.utils.session import create_session
    from sqlalchemy import select

    with create_session() as session:
        where = (TaskInstance.dag_id == DAG_ID, TaskInstance.run_id == run_id, TaskInstance.task_id == task_id)
        return session.scalars(select(TaskInstance).where(*where)).one()


def state_of(run_id: str, task_id: str) -> str:
    return str(task_instance(run_id, task_id).state)
