"""Airflow's public REST API, as far as the demo, the command line and the tests speak to it (Airflow 3.3, API v2)."""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

import httpx

from seamline.domain.errors import ConfigError, Refused, TerminalError, TransientError

FINISHED = frozenset({"success", "failed"})
POLL_S = 1.0
# Airflow gives no more at once, whatever is asked for (`[api] maximum_page_limit`), unless it is set to give fewer.
PAGE = 100
# Airflow takes no longer one (3.3.2).
NOTE_LETTERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class DagRun:
    dag_id: str
    run_id: str
    state: str
    partition_key: str | None
    conf: dict[str, Any]
    run_after: str = ""
    run_type: str = ""
    queued_at: str = ""
    started_at: str = ""
    ended_at: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Backfill:
    """Airflow's own. `first` and `last`: of its dates, both inclusive."""

    number: int
    dag_id: str
    first: date
    last: date
    is_paused: bool
    is_over: bool
    created_at: str
    at_once: int


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
        return {dag["dag_id"] for dag in self._each("/api/v2/dags", "dags")}

    def parse_again(self, file: str) -> None:
        """Ask for this file of DAGs, as `syncs.py`, to be read before its turn. Nothing is asked where Airflow knows no
        DAG of it yet."""
        known = self._each("/api/v2/dags", "dags")
        token = next((dag["file_token"] for dag in known if dag["relative_fileloc"] == file), None)
        if token is not None:
            # Refused as a conflict while somebody else's request waits.
            self._send("PUT", f"/api/v2/parseDagFile/{token}")

    def import_errors(self) -> list[str]:
        errors = self._each("/api/v2/importErrors", "import_errors")
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

    def is_paused(self, dag_id: str) -> bool:
        return bool(self._call("GET", f"/api/v2/dags/{dag_id}")["is_paused"])

    def next_run(self, dag_id: str) -> datetime | None:
        """When its schedule starts its next run: a moment that is over where that waits for nothing but the DAG's being
        switched on. None where it starts none."""
        found = self._call("GET", f"/api/v2/dags/{dag_id}")["next_dagrun_run_after"]
        return _moment(found) if found else None

    def trigger(
        self, dag_id: str, *, run_id: str, partition_key: str | None = None, conf: Any = None, note: str | None = None
    ) -> DagRun:
        """Start a run under our own id, or find it when it was already started. `note`: for the run's page."""
        body = {"dag_run_id": run_id, "logical_date": None, "conf": conf or {}, "note": note}
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

    def runs_under_way(self) -> list[DagRun]:
        """Of all DAGs that this user sees, those that run and those that wait to begin, the oldest first."""
        asked = {"state": ["running", "queued"], "limit": PAGE, "order_by": "run_after"}
        return [_dag_run(entry) for entry in self._call("GET", "/api/v2/dags/~/dagRuns", params=asked)["dag_runs"]]

    def lengths(self, dag_id: str, *, of: int = 5) -> list[timedelta]:
        """How long the newest runs took that ended well."""
        asked = {"state": "success", "limit": of, "order_by": "-run_after"}
        runs = map(_dag_run, self._call("GET", f"/api/v2/dags/{dag_id}/dagRuns", params=asked)["dag_runs"])
        return [_moment(one.ended_at) - _moment(one.started_at) for one in runs if one.started_at and one.ended_at]

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        found = self._each(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances", "task_instances")
        return [
            TaskState(entry["task_id"], entry["state"] or "waiting", entry["try_number"], entry["map_index"])
            for entry in found
        ]

    def note(self, dag_id: str, run_id: str, text: str) -> None:
        """Put a note on the page of a run, in place of an earlier one."""
        self._call("PATCH", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}", params={"update_mask": "note"},
                   json={"note": text[:NOTE_LETTERS_MAX]})  # fmt: skip

    def backfill(self, dag_id: str, *, first: date, last: date, **how: Any) -> int:
        """Airflow's own backfill of the dates `first` to `last`, both inclusive; returns its id.

        `how`: other fields of the request, as `run_backwards`. Left out: one date at a time, the oldest first, also
        what is done. Refused while another one of this DAG goes on.
        """
        answer = self._send("POST", "/api/v2/backfills", json={**_backfill_of(dag_id, first, last), **how})
        if answer.status_code == httpx.codes.CONFLICT:
            raise Refused(
                f"Airflow takes no backfill of {dag_id} now: {_detail(answer)}",
                hint="follow it, or end it, and ask again",
            )
        return int(_checked(answer).json()["id"])

    def dates_of(self, dag_id: str, *, first: date, last: date) -> list[date]:
        """The partitions that a backfill of this range would make, by Airflow's own dry run."""
        answer = self._call("POST", "/api/v2/backfills/dry_run", json=_backfill_of(dag_id, first, last))
        return [date.fromisoformat(one["partition_key"]) for one in answer["backfills"]]

    def backfills(self, dag_id: str) -> list[Backfill]:
        """The newest first."""
        asked = {"dag_id": dag_id, "order_by": "-id", "limit": 20}
        return [_backfill(entry) for entry in self._call("GET", "/api/v2/backfills", params=asked)["backfills"]]

    def order(self, backfill: int, order: str) -> None:
        """`order`: pause, unpause or cancel. What runs already is not ended by it."""
        self._call("PUT", f"/api/v2/backfills/{backfill}/{order}")

    def runs_of(self, dag_id: str, *, first: date, last: date, since: str = "") -> dict[str, DagRun]:
        """By partition key, of the dates `first` to `last`, its newest run that was queued at `since` or later."""
        found: dict[str, DagRun] = {}
        between = {"partition_date_gte": first.isoformat(), "partition_date_lte": last.isoformat()}
        asked = {**between, "order_by": "-id"}
        for run in map(_dag_run, self._each(f"/api/v2/dags/{dag_id}/dagRuns", "dag_runs", asked)):
            if run.partition_key and (not since or _moment(run.queued_at) >= _moment(since)):
                found.setdefault(run.partition_key, run)
        return found

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

    def _each(self, path: str, name: str, asked: Mapping[str, Any] | None = None) -> Iterator[Any]:
        """What lies under `name` of all pages. Airflow may give fewer at once than are asked for."""
        offset, total = 0, 1
        while offset < total:
            answer = self._call("GET", path, params={**(asked or {}), "limit": PAGE, "offset": offset})
            if not answer[name]:
                return
            yield from answer[name]
            total, offset = answer["total_entries"], offset + len(answer[name])

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
        entry.get("run_type") or "",
        entry.get("queued_at") or "",
        entry.get("start_date") or "",
        entry.get("end_date") or "",
        entry.get("note") or "",
    )


def _backfill_of(dag_id: str, first: date, last: date) -> dict[str, Any]:
    return {
        "dag_id": dag_id,
        # Airflow reads both as the clock of the timetable's zone shows them.
        "from_date": _midnight(first),
        "to_date": _midnight(last),
        "run_backwards": False,
        "dag_run_conf": {},
        "reprocess_behavior": "completed",
        "max_active_runs": 1,
    }


def _backfill(entry: dict[str, Any]) -> Backfill:
    first, last = (datetime.fromisoformat(entry[side]).date() for side in ("from_date", "to_date"))
    return Backfill(
        entry["id"],
        entry["dag_id"],
        first,
        last,
        is_paused=entry["is_paused"],
        is_over=entry["completed_at"] is not None,
        created_at=entry["created_at"],
        at_once=entry["max_active_runs"],
    )


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:500]


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.min.replace(tzinfo=UTC)


def _log_line(event: Any) -> str:
    if not isinstance(event, dict):
        return str(event)
    return f"{event.get('level', ''):<7} {event.get('event', '')}".strip()


def _midnight(day: date) -> str:
    return datetime(day.year, day.month, day.day, tzinfo=UTC).isoformat()
