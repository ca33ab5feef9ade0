"""What a process of Airflow's has loaded before it is forked. Imported in such processes only."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
from airflow.dag_processing.dagbag import DagBag
from airflow.sdk.execution_time.supervisor import in_process_api_server

# What the tasks of these tests import while they run.
from tests.dags.task_process import DAG_ID

_DAGS = Path(__file__).resolve().parents[2] / "dags"

DAG = DagBag(dag_folder=_DAGS / "syncs.py", bundle_path=_DAGS, bundle_name="dags-folder").dags[DAG_ID]


async def _ask(app: Any) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://in-process.invalid") as client:
        await client.get("/health")


# Its first answer is the larger part of what a process would need to begin: it is given here, once, and leaves nothing
# running behind.
asyncio.run(_ask(in_process_api_server().app))
