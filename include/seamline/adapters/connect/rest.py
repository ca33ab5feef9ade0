"""Kafka Connect's REST interface: connectors created stopped, seeded, resumed, mended.

Each request is repeated until its deadline while the worker is rebalancing (409) or starting (503): this client is the
one owner of that retry. Everything else is one of Seamline's errors at once.
"""

import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from seamline.adapters.connect.trace import cure_of, failed_as_it_ended, has_lost_its_place, known_cure, short_trace
from seamline.adapters.connections import Connection
from seamline.adapters.tls import client_context
from seamline.domain.errors import ConfigError, TerminalError, TransientError

# Connect answers many requests only when a task has ended, for which that has 30 s.
_REQUEST_TIMEOUT_S = 45.0
_BUSY_TIMEOUT_S = 60.0
_PAUSE_S = 0.2
_DOCTOR = "`seamline status` shows whether Connect is up; its log says more"
_MISSING = object()
# Connect reads an offsets topic to its last record, committed or not: seen with a task that its worker gave up (4.3.1).
_HELD_OFFSETS = "a task that was given up may hold its transaction open: that ends by itself within 10 minutes"


@dataclass(frozen=True, slots=True)
class ConnectorStatus:
    """`state` and `tasks` in Connect's words: RUNNING, PAUSED, STOPPED, FAILED, UNASSIGNED, RESTARTING."""

    state: str
    tasks: tuple[str, ...] = ()
    trace: str = ""

    @property
    def is_running(self) -> bool:
        return self.state == "RUNNING" and bool(self.tasks) and all(task == "RUNNING" for task in self.tasks)

    @property
    def is_stopped(self) -> bool:
        return self.state == "STOPPED" and not self.tasks

    @property
    def is_failed(self) -> bool:
        return self.state == "FAILED" or "FAILED" in self.tasks

    @property
    def error(self) -> str:
        return short_trace(self.trace) if self.trace else ""

    @property
    def cure(self) -> str:
        return cure_of(self.trace)

    @property
    def has_lost_its_place(self) -> bool:
        return has_lost_its_place(self.trace)

    @property
    def failed_as_it_ended(self) -> bool:
        return failed_as_it_ended(self.trace)


class ConnectClient:
    """One Connect cluster. Calls are safe to repeat, and nothing is held between them."""

    def __init__(self, connection: Connection, *, busy_timeout_s: float = _BUSY_TIMEOUT_S) -> None:
        scheme = "https" if connection.kind == "https" else "http"
        self.url = f"{scheme}://{connection.host}:{connection.port}"
        self._busy_timeout_s = busy_timeout_s
        self._auth = (connection.login, connection.password) if connection.login else None
        # httpx makes a context for calls in the clear too. This one loads no CAs, which would take longer than a call.
        clear = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self._verify = client_context(connection) if scheme == "https" else clear

    def is_healthy(self) -> bool:
        """Whether the worker has started up. `GET /connectors` answers too early (seen on Connect 4.3.1)."""
        try:
            return self._request("GET", "/health").status_code == httpx.codes.OK
        except httpx.HTTPError:
            return False

    def plugin_versions(self) -> dict[str, tuple[str, ...]]:
        """Installed source connectors: class name → its versions."""
        found: dict[str, list[str]] = {}
        for plugin in self._call("GET", "/connector-plugins"):
            if plugin.get("type") == "source":
                found.setdefault(str(plugin["class"]), []).append(str(plugin.get("version") or ""))
        return {name: tuple(versions) for name, versions in found.items()}

    def config(self, name: str) -> dict[str, str] | None:
        """The connector's settings as Connect keeps them; None where there is no such connector."""
        answer = self._call("GET", f"/connectors/{quote(name)}/config", missing=None)
        return None if answer is None else {key: value for key, value in answer.items() if key != "name"}

    def create_stopped(self, name: str, config: Mapping[str, str]) -> None:
        """Create the connector without starting it. One that exists already is left as it is."""
        body = {"name": name, "initial_state": "STOPPED", "config": {**config, "name": name}}
        self._call("POST", "/connectors", body=body, exists=f"{name} already exists")
        self.wait_for(name, lambda status: status.state != "UNASSIGNED", what="to be assigned")

    def put_config(self, name: str, config: Mapping[str, str]) -> None:
        self._call("PUT", f"/connectors/{quote(name)}/config", body={**config, "name": name})

    def offset(self, name: str) -> dict[str, Any] | None:
        """The source offset that Connect keeps for this connector; None before the first."""
        answer = self._call("GET", f"/connectors/{quote(name)}/offsets", missing=None)
        entries = (answer or {}).get("offsets") or []
        return dict(entries[0]["offset"]) if entries and entries[0].get("offset") else None

    def put_offset(self, name: str, *, partition: Mapping[str, str], offset: Mapping[str, Any]) -> None:
        """Set where a stopped connector will start."""
        body = {"offsets": [{"partition": dict(partition), "offset": dict(offset)}]}
        self._call("PATCH", f"/connectors/{quote(name)}/offsets", body=body)

    def status(self, name: str) -> ConnectorStatus | None:
        answer = self._call("GET", f"/connectors/{quote(name)}/status", missing=None)
        if answer is None:
            return None
        connector, tasks = answer["connector"], answer.get("tasks") or []
        traces = [part.get("trace", "") for part in (connector, *tasks) if part.get("trace")]
        return ConnectorStatus(connector["state"], tuple(task["state"] for task in tasks), "\n".join(traces))

    def stop(self, name: str) -> None:
        """Stop and wait until no task runs any more. The connector keeps its settings and offset."""
        self._call("PUT", f"/connectors/{quote(name)}/stop")
        self._wait_until_stopped(name)

    def delete(self, name: str) -> None:
        """Stop the connector and delete it. Its offset stays in its offsets topic. One that is not there is a no-op,
        also where its status is still reported: Connect forgets that later."""
        if self._call("PUT", f"/connectors/{quote(name)}/stop", missing=_MISSING) is not _MISSING:
            self._wait_until_stopped(name)
            self._call("DELETE", f"/connectors/{quote(name)}", missing=None)

    def _wait_until_stopped(self, name: str) -> None:
        self.wait_for(name, lambda status: status.is_stopped, what="to stop")

    def pause(self, name: str) -> None:
        """Let its task stand still with its sessions open; returns at once."""
        self._call("PUT", f"/connectors/{quote(name)}/pause")

    def resume(self, name: str) -> None:
        self._call("PUT", f"/connectors/{quote(name)}/resume")

    def restart_failed(self, name: str) -> None:
        """Ask for a restart of the connector and its tasks where they have failed; returns at once."""
        self._call("POST", f"/connectors/{quote(name)}/restart?includeTasks=true&onlyFailed=true")

    def restart_all(self, name: str) -> None:
        """Restart connector and tasks, also those that say they run; returns at once."""
        self._call("POST", f"/connectors/{quote(name)}/restart?includeTasks=true&onlyFailed=false")

    def wait_for(
        self,
        name: str,
        is_reached: Callable[[ConnectorStatus], bool],
        *,
        what: str,
        timeout_s: float = _BUSY_TIMEOUT_S,
    ) -> ConnectorStatus:
        """Poll the status until `is_reached`. TransientError after `timeout_s` with what it last was."""
        deadline = time.monotonic() + timeout_s
        while True:
            status = self.status(name)
            if status is not None and is_reached(status):
                return status
            if time.monotonic() > deadline:
                raise TransientError(f"connector {name} did not come {what} in {timeout_s:g} s: {status}", hint=_DOCTOR)
            time.sleep(_PAUSE_S)

    def _call(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        missing: Any = ...,
        exists: str = "",
    ) -> Any:
        """One request. `missing` is the answer for 404; `exists` is the text of a 409 that means "done already"."""
        deadline = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                response = self._request(method, path, body)
            except httpx.ReadTimeout as exc:
                raise TransientError(
                    f"Connect at {self.url} did not answer {method} {path} in {_REQUEST_TIMEOUT_S:g} s",
                    hint=_HELD_OFFSETS if path.endswith("/offsets") else _DOCTOR,
                ) from exc
            except httpx.HTTPError as exc:
                raise TransientError(
                    f"Connect at {self.url} does not answer ({type(exc).__name__}: {exc})", hint=_DOCTOR
                ) from exc
            if response.is_success:
                return response.json() if response.content else None
            if response.status_code == httpx.codes.NOT_FOUND and missing is not ...:
                return missing
            if response.status_code == httpx.codes.CONFLICT and exists and exists in response.text:
                return None
            if not _is_busy(response) or time.monotonic() > deadline:
                raise self._error(method, path, response)
            time.sleep(_PAUSE_S)

    def _request(self, method: str, path: str, body: Any = None) -> httpx.Response:
        return httpx.request(
            method,
            f"{self.url}{path}",
            json=body,
            timeout=_REQUEST_TIMEOUT_S,
            auth=self._auth,
            # Connect is a server of ours: a proxy of the environment is never on the way.
            trust_env=False,
            verify=self._verify,
        )

    def _error(self, method: str, path: str, response: httpx.Response) -> Exception:
        text = _message(response)
        what = f"Connect at {self.url} answered {method} {path} with {response.status_code}: {text}"
        if response.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
            return ConfigError(what, hint="check login and password of the connection `connect`")
        if "ConfigInfo.configValue() is null" in text:
            # Connect's answer to any connector setting that Debezium rejects; the reason is only in its log.
            return ConfigError(what, hint="a setting of the connector is wrong; Connect's log names it")
        if response.status_code == httpx.codes.BAD_REQUEST:
            return ConfigError(what, hint=known_cure(text) or "the message names the setting")
        if response.status_code >= httpx.codes.INTERNAL_SERVER_ERROR or _is_busy(response):
            return TransientError(what, hint=_DOCTOR)
        return TerminalError(what, hint=_DOCTOR)


def _message(response: httpx.Response) -> str:
    try:
        return str(response.json().get("message", response.text))
    except (ValueError, AttributeError):
        return response.text[:500]


def _is_busy(response: httpx.Response) -> bool:
    """Rebalancing, starting, a request that the herder timed out on, or offsets written while Kafka still ends a
    transaction of the same id (InvalidTxnStateException): all over in seconds, and every request may be repeated."""
    if response.status_code in (httpx.codes.CONFLICT, httpx.codes.SERVICE_UNAVAILABLE):
        return True
    said = ("imed out", "ebalance", "Failed to modify offsets")
    return response.status_code == httpx.codes.INTERNAL_SERVER_ERROR and any(word in response.text for word in said)
