"""Airflow's public REST API, as far as the demo, the command line and the tests speak to it (Airflow 3.3, API v2)."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any

import httpx

from seamline.domain.errors import ConfigError, TerminalError, TransientError

FINISHED = frozenset({"success", "failed"})
POLL_S = 1.0


@dataclass(frozen=True, slots=True)
class DagRun:
    dag_id: str
    run_id: str
    state: str
    partition_key: str | None
    conf: dict[str, Any]
    run_after: str = ""


@dataclass(frozen=True, slots=True)
class TaskState:
    task_id: str
    state: str
    try_number: int
    map_index: int = -1


class AirflowRest:
    """One signed-in user. Every call may be repeated; a trigger with the same run id finds its run."""

    def __init__(self, base_url: str, username: str, password: str) -> None:
        self._credentials = {"username": username, "password": password}
        self._client = httpx.Client(base_url=base_url, timeout=30, trust_env=False)
        self._token = ""

    def __enter__(self) -> "AirflowRest":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def dag_ids(self) -> set[str]:
        return {dag["dag_id"] for dag in self._call("GET", "/api/v2/dags", params={"limit": 500})["dags"]}

    def import_errors(self) -> list[str]:
        errors = self._call("GET", "/api/v2/importErrors")["import_errors"]
        return [f"{error['filename']}: {error['stack_trace']}" for error in errors]

    def unpause(self, dag_id: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}", params={"update_mask": "is_paused"}, json={"is_paused": False})

    def pause(self, dag_id: str) -> None:
        self._call("PATCH", f"/api/v2/dags/{dag_id}", params={"update_mask": "is_paused"}, json={"is_paused": True})

    def add_pool(self, name: str, *, slots: int, description: str) -> None:
        """Add a pool; one of that name is left as it is."""
        body = {"name": name, "slots": slots, "description": description, "include_deferred": False}
        answer = self._send("POST", "/api/v2/pools", json=body)
        if answer.status_code != httpx.codes.CONFLICT:
            _checked(answer)

    def trigger(self, dag_id: str, *, run_id: str, partition_key: str | None = None, conf: Any = None) -> DagRun:
        """Start a run under our own id, or find it when it was already started."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}}
        if partition_key is not None:
            body["partition_key"] = partition_key
        answer = self._send("POST", f"/api/v2/dags/{dag_id}/dagRuns", json=body)
        if answer.status_code != httpx.codes.CONFLICT:
            _checked(answer)
        return self.run(dag_id, run_id)

    def run(self, dag_id: str, run_id: str) -> DagRun:
        return _dag_run(self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}"))

    def runs(self, dag_id: str, *, limit: int = 50) -> list[DagRun]:
        """The newest runs first."""
        answer = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params={"limit": limit, "order_by": "-run_after"})
        return [_dag_run(entry) for entry in answer["dag_runs"]]

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        answer = self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", params={"limit": 200})
        return [
            TaskState(entry["task_id"], entry["state"] or "waiting", entry["try_number"], entry["map_index"])
            for entry in answer["task_instances"]
        ]

    def backfill(self, dag_id: str, *, first: date, last: date) -> int:
        """Airflow's own backfill of the dates `first` to `last`, both inclusive; returns its id."""
        answer = self._call(
            "POST",
            "/api/v2/backfills",
            json={
                "dag_id": dag_id,
                "from_date": _midnight(first),
                "to_date": _midnight(last),
                "run_backwards": False,
                "dag_run_conf": {},
                "reprocess_behavior": "completed",
                "max_active_runs": 1,
            },
        )
        return int(answer["id"])

    def log_tail(self, dag_id: str, run_id: str, task: TaskState, *, lines: int = 25) -> str:
        """The last lines of a task's newest try."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task.task_id}/logs/{max(task.try_number, 1)}"
        answer = self._send("GET", path, params={"map_index": task.map_index, "full_content": True})
        if answer.is_error:
            return f"(no log: {answer.status_code})"
        events = [_log_line(event) for event in answer.json().get("content", [])]
        return "\n".join(events[-lines:])

    def wait(self, dag_id: str, run_id: str, *, timeout_s: float, on_change: Callable[[TaskState], None]) -> DagRun:
        """Follow a run to its end, calling `on_change` once per change of a task's state."""
        seen: dict[tuple[str, int], str] = {}
        deadline = time.monotonic() + timeout_s
        while True:
            run = self.run(dag_id, run_id)
            for task in self.tasks(dag_id, run_id):
                if seen.get((task.task_id, task.map_index)) != task.state:
                    seen[task.task_id, task.map_index] = task.state
                    on_change(task)
            if run.state in FINISHED:
                return run
            if time.monotonic() > deadline:
                raise TerminalError(
                    f"{dag_id} run {run_id} is still {run.state} after {timeout_s:.0f} s",
                    hint="look at the run in the Airflow UI, or at `./seamline logs airflow-scheduler`",
                )
            time.sleep(POLL_S)

    def _call(self, method: str, path: str, **request: Any) -> Any:
        return _checked(self._send(method, path, **request)).json()

    def _send(self, method: str, path: str, **request: Any) -> httpx.Response:
        with _translated(f"{method} {path}"):
            if not self._token:
                self._sign_in()
            headers = {"Authorization": f"Bearer {self._token}"}
            answer = self._client.request(method, path, headers=headers, **request)
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                self._sign_in()
                headers = {"Authorization": f"Bearer {self._token}"}
                answer = self._client.request(method, path, headers=headers, **request)
            return answer

    def _sign_in(self) -> None:
        answer = self._client.post("/auth/token", json=self._credentials)
        if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            raise ConfigError(f"Airflow does not accept user {self._credentials['username']!r} with this password")
        self._token = str(_checked(answer).json()["access_token"])


@contextmanager
def _translated(what: str) -> Iterator[None]:
    try:
        yield
    except httpx.TransportError as exc:
        raise TransientError(f"Airflow's API does not answer: {what}", hint="is it up? `./seamline ps`") from exc


def _checked(answer: httpx.Response) -> httpx.Response:
    if answer.is_error:
        request = answer.request
        raise TerminalError(
            f"Airflow refused {request.method} {request.url.path}: {answer.status_code} {answer.text[:500]}"
        )
    return answer


def _dag_run(entry: dict[str, Any]) -> DagRun:
    return DagRun(
        entry["dag_id"],
        entry["dag_run_id"],
        entry["state"],
        entry.get("partition_key"),
        entry.get("conf") or {},
        entry.get("run_after") or "",
    )


def _log_line(event: Any) -> str:
    if not isinstance(event, dict):
        return str(event)
    return f"{event.get('level', ''):<7} {event.get('event', '')}".strip()


def _midnight(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat()
