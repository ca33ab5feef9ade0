"""The connector of one source as a capture: what `sync.capture_lifecycle` asks for, in Connect's and Debezium's
words."""

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from seamline import settings
from seamline.adapters.connect.connector_config import (
    LOG_BEHIND_MAX_GB,
    LOG_MAX_GB,
    connector_config,
    refuse_literal_secrets,
    untested_version,
)
from seamline.adapters.connect.endpoint import DATABASES, CaptureEndpoint, Start, offsets_topic, schema_history_topic
from seamline.adapters.connect.handed_over import hand_over, java_client_settings
from seamline.adapters.connect.rest import ConnectClient, ConnectorStatus
from seamline.adapters.connection_extra import SERVERS_FOR_CONNECT
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.left_open import end_left_open
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.adapters.tls import tls_of
from seamline.domain.capture_status import CaptureState, CaptureStatus
from seamline.domain.errors import Refused, SeamlineError, TransientError
from seamline.domain.log_fill import LogFill, LogLimits
from seamline.domain.position import Position
from seamline.kinds.found import logged_kind
from seamline.plan.model import SourcePlan
from seamline.ports import Problem

KAFKA_CONNECTION = "kafka"
CONNECT_CONNECTION = "connect"
_START_TIMEOUT_S = 120.0
_GONE_WITHIN_S = 30.0
_PAUSE_S = 0.1
_TESTED_PLUGINS = (
    "install Debezium's connector of the version in jars/jars.lock beside it, with its seamline-connect.jar in its"
    " folder (`./seamline setup` makes them in .seamline/env/own-connectors); then restart Connect"
)
# The host commits a heartbeat every 10 s, so a capture that runs is never silent for long. MariaDB's does not notice
# by itself that the server has ended its session.
_SILENT_AFTER_S = 30.0
# A task reads its offsets and the schema history before it says RUNNING: seconds, unless it hangs there.
_STARTED_WITHIN_S = 45.0
_PATIENCE_MAX_S = 1800.0
# A broker answers a producer that is over its quota late: a large batch at the least rate takes about a minute.
_PATIENCE_SLOWED = 6


# Connect's `group.id`, unless the connection `connect` says another in its extra `group_id`.
GROUP = "seamline-connect"

EndLeftOpen = Callable[[str, Sequence[str]], Sequence[str]]

log = logging.getLogger(__name__)


class DebeziumCapture:
    """`CaptureConnector` of sync.capture."""

    def __init__(self, source: SourcePlan, *, client: ConnectClient, endpoint: CaptureEndpoint) -> None:
        self.name = source.connector
        self._source = source
        self._client = client
        self._endpoint = endpoint

    def problems(self) -> tuple[Problem, ...]:
        if not self._client.is_healthy():
            raise TransientError(f"Connect at {self._client.url} is not ready", hint="start it: `seamline up`")
        reason = untested_version(self._source.kind, self._client.plugin_versions())
        if reason:
            return (Problem(reason, _TESTED_PLUGINS),)
        return ()

    def status(self) -> ConnectorStatus | None:
        return self._client.status(self.name)

    def create(self, tables: Sequence[str]) -> None:
        """Create it stopped, unless it is there; refuses one that holds a secret in plain text, and one that does not
        know the structure of a database that it shall read now."""
        wanted = self._config(tables, Start.AGAIN)
        if self._client.config(self.name) is None:
            self._client.create_stopped(self.name, wanted)
        known = self._client.config(self.name) or {}
        refuse_literal_secrets(self.name, known)
        if known.get(DATABASES, "") != wanted.get(DATABASES, "") and self.is_seeded():
            raise Refused(
                f"capture {self.name} began with the structure of the databases {known.get(DATABASES, 'none')}, and"
                f" source {self._source.name} declares {wanted.get(DATABASES, 'none')} now: a row of a table that it"
                " does not know would stop it for good",
                hint=f"take the change of `databases` back; or run `seamline capture reset {self._source.name}` and"
                " onboard the syncs of this source again",
            )

    def is_seeded(self) -> bool:
        return self._client.offset(self.name) is not None

    def seed(self, position: Position, tables: Sequence[str]) -> None:
        """Let a stopped connector begin at `position`; one of a binlog reads structure at its first start."""
        offset = logged_kind(self._source.kind).connector().first_offset(position)
        self.set_tables(tables, start=Start.FIRST)
        self._client.put_offset(self.name, partition={"server": self.name}, offset=offset)

    def is_first_start(self) -> bool:
        """Whether it was seeded and its first start is not known to be over."""
        return (self._client.config(self.name) or {}).get("snapshot.mode") == Start.FIRST.value

    def carries(self, tables: Sequence[str]) -> bool:
        """Whether its settings are exactly those for `tables`."""
        return self._client.config(self.name) == self._config(tables, Start.AGAIN)

    def set_tables(self, tables: Sequence[str], *, start: Start = Start.AGAIN) -> None:
        """Stop it and change its settings; it stays stopped. Its offset, and so its place, is kept."""
        self._client.stop(self.name)
        self._client.put_config(self.name, self._config(tables, start))

    def start(self) -> None:
        """Resume it, restart what failed, and wait until it says RUNNING or FAILED."""
        before = self._client.status(self.name)
        self._client.resume(self.name)
        if before is not None and before.is_failed:
            self._client.restart_failed(self.name)
            self._client.wait_for(
                self.name, lambda s: s.trace != before.trace or s.is_running, what="to restart", timeout_s=30
            )
        self._client.wait_for(
            self.name,
            lambda status: status.is_running or status.is_failed,
            what="to run",
            timeout_s=_START_TIMEOUT_S,
        )

    def stop(self) -> None:
        self._client.stop(self.name)

    def restart_failed(self) -> None:
        self._client.restart_failed(self.name)

    def delete(self) -> None:
        """Stopped first: a task that is still at work when its topics go would make them again."""
        self._client.delete(self.name)

    def _config(self, tables: Sequence[str], start: Start) -> dict[str, str]:
        return connector_config(self._source, tables, endpoint=self._endpoint, start=start)


class PlannedTopics:
    """`LogTopics` of sync.capture_lifecycle: the three topics of one source's capture."""

    def __init__(self, source: SourcePlan, topics: CaptureTopics) -> None:
        self._source = source
        self._topics = topics

    def ensure(self) -> str:
        """Create or check all of them; returns the log topic's id."""
        if logged_kind(self._source.kind).connector().keeps_schema_history:
            self._topics.ensure_schema_history(schema_history_topic(self._source))
        self._topics.ensure_connector_offsets(offsets_topic(self._source))
        return self._topics.ensure_log(self._source.log_topic)

    def delete(self) -> None:
        """Delete all of them, for a capture that is given up; returns when they are gone."""
        for topic in (self._source.log_topic, offsets_topic(self._source), schema_history_topic(self._source)):
            self._topics.delete(topic)
            deadline = time.monotonic() + _GONE_WITHIN_S
            while self._topics.topic_id(topic):
                if time.monotonic() > deadline:
                    raise TransientError(f"topic {topic} was deleted and is still there", hint="is every broker up?")
                time.sleep(_PAUSE_S)

    def end_offset(self) -> int:
        return self._topics.offsets(self._source.log_topic)[1]

    def size_bytes(self) -> int:
        return self._topics.size_bytes(self._source.log_topic)


class ConnectCaptureProbe:
    """`CaptureProbe` of sync.capture_watch: state, restart, stop and size of one source's capture.

    A connector that says RUNNING and has written nothing for half a minute counts as failed: its task hangs. So does
    one whose task does not come to run. After a restart each is given twice the time, half an hour at most, until it
    has moved. Before it what the last task left open in Kafka is ended: `end_left_open(connector, topics)`. Before
    every restart Connect is given the logins of now: `hand_over()`.
    """

    def __init__(
        self,
        source: SourcePlan,
        *,
        client: ConnectClient,
        topics: CaptureTopics,
        end_left_open: EndLeftOpen,
        hand_over: Callable[[], None] = lambda: None,
    ) -> None:
        self._hand_over = hand_over
        self._name = source.connector
        self._written_together = (source.log_topic, offsets_topic(source))
        self._end_left_open = end_left_open
        self._topic = source.log_topic
        self._client = client
        self._topics = topics
        self._running_since_s = 0.0
        self._written_end = 0
        self._written_at_s = 0.0
        self._starting_since_s = 0.0
        self._started_within_s = _STARTED_WITHIN_S
        self._silent_after_s = _SILENT_AFTER_S
        self._is_slowed = False

    def status(self) -> CaptureStatus:
        status = self._client.status(self._name)
        if status is not None and status.is_running:
            return self._running()
        self._running_since_s = 0.0
        if status is not None and not status.is_failed and status.state not in ("STOPPED", "PAUSED"):
            return self._starting()
        self._starting_since_s = 0.0
        if status is None:
            return CaptureStatus(CaptureState.MISSING)
        if status.is_failed:
            return CaptureStatus(CaptureState.FAILED, f"{status.error} → {status.cure}")
        return CaptureStatus(CaptureState.PAUSED if status.state == "PAUSED" else CaptureState.STOPPED)

    def restart_failed(self) -> None:
        status = self._client.status(self._name)
        try:
            self._hand_over()
        except SeamlineError as exc:
            # What it was given before may still do.
            log.warning("Connect is not given the logins of now: connector=%s error=%s", self._name, exc)
        if status is not None and status.is_failed:
            self._client.restart_failed(self._name)
        elif status is not None and not status.is_stopped:
            if status.is_running:
                self._silent_after_s = min(2 * self._silent_after_s, _PATIENCE_MAX_S)
            else:
                self._started_within_s = min(2 * self._started_within_s, _PATIENCE_MAX_S)
            if ended := self._end_left_open(self._name, self._written_together):
                log.warning("a transaction that was left open is ended: topics=%s", ",".join(ended))
            self._client.restart_all(self._name)
        self._running_since_s = self._starting_since_s = 0.0

    def stop(self) -> None:
        self._client.stop(self._name)

    def pause(self) -> None:
        self._client.pause(self._name)

    def resume(self) -> None:
        self._client.resume(self._name)

    def slow_down(self, bytes_per_s: int | None) -> None:
        self._topics.limit_producer(self._name, bytes_per_s, topic=self._topic)
        self._is_slowed = bytes_per_s is not None

    def place(self) -> Mapping[str, object]:
        return self._client.offset(self._name) or {}

    def log_fill(self) -> LogFill:
        space = self._topics.space(self._topic)
        if not space.size_bytes:
            return LogFill(0, 0, 0)
        return LogFill(*self._topics.offsets(self._topic), space.size_bytes, space.free_bytes)

    def log_limits(self) -> LogLimits | None:
        given = self._client.config(self._name) or {}
        if LOG_MAX_GB not in given:
            return None
        return LogLimits(float(given[LOG_MAX_GB]), float(given.get(LOG_BEHIND_MAX_GB, 0)))

    def _starting(self) -> CaptureStatus:
        now_s = time.monotonic()
        self._starting_since_s = self._starting_since_s or now_s
        starting_s = now_s - self._starting_since_s
        if starting_s > self._started_within_s:
            return CaptureStatus(CaptureState.FAILED, f"its task has been starting for {starting_s:.0f} s")
        return CaptureStatus(CaptureState.STARTING)

    def _running(self) -> CaptureStatus:
        self._starting_since_s, self._started_within_s = 0.0, _STARTED_WITHIN_S
        now_s = time.monotonic()
        self._running_since_s = self._running_since_s or now_s
        # The times of records are by another machine's clock, and either may be put back.
        end = self._topics.written_end(self._topic)
        if end != self._written_end:
            self._written_end, self._written_at_s, self._silent_after_s = end, now_s, _SILENT_AFTER_S
        silent_s = now_s - max(self._written_at_s, self._running_since_s)
        if silent_s > self._silent_after_s * (_PATIENCE_SLOWED if self._is_slowed else 1):
            why = (
                f"Connect says RUNNING, and nothing has come into the log for {silent_s:.0f} s: does its source answer?"
            )
            return CaptureStatus(CaptureState.FAILED, why)
        return CaptureStatus(CaptureState.RUNNING)


def open_probe(source: SourcePlan) -> ConnectCaptureProbe:
    """For the stream host's driver."""
    kafka, connect = client_settings(resolve(KAFKA_CONNECTION)), resolve(CONNECT_CONNECTION)
    group = str(connect.extra.get("group_id") or GROUP)
    return ConnectCaptureProbe(
        source,
        client=ConnectClient(connect),
        topics=CaptureTopics(kafka),
        # So Connect calls the producer of a connector's only task (KIP-618).
        end_left_open=lambda connector, topics: end_left_open(kafka, f"{group}-{connector}-0", topics),
        hand_over=lambda: hand_over_logins(source),
    )


def capture_endpoint(source: SourcePlan) -> CaptureEndpoint:
    """From the connections `connect` (extra `secrets_file`: a path on Connect's machine), `kafka` and the capture's."""
    connection, connect, kafka = (resolve(name) for name in (source.capture, CONNECT_CONNECTION, KAFKA_CONNECTION))
    extra: dict[str, Any] = dict(connection.extra)
    secrets_file = str(connect.extra.get("secrets_file") or _own_secrets_file())
    return CaptureEndpoint(
        host=str(extra.get("host_for_connect") or connection.host),
        port=int(extra.get("port_for_connect") or connection.port),
        connection_id=source.capture,
        secrets_file=secrets_file,
        kafka_servers=str(connect.extra.get("kafka_servers") or client_settings(kafka)["bootstrap.servers"]),
        tls=tls_of(connection),
        kafka_security=java_client_settings(kafka, secrets_file=secrets_file),
        source_client={
            "bootstrap.servers": str(
                extra.get(SERVERS_FOR_CONNECT) or client_settings(connection)["bootstrap.servers"]
            ),
            **java_client_settings(connection, secrets_file=secrets_file),
        },
    )


def _own_secrets_file() -> Path:
    return settings.load().data / "connect" / "secrets.properties"


def hand_over_logins(source: SourcePlan) -> None:
    """Give Connect the logins and certificates of now, where its secrets file can be reached from here: the local
    stack's own, or the one that the connection `connect` names in `secrets_file_here`. Elsewhere its owner does."""
    connect = resolve(CONNECT_CONNECTION)
    here = connect.extra.get("secrets_file_here") or ("" if connect.extra.get("secrets_file") else _own_secrets_file())
    if here:
        hand_over(Path(str(here)), resolve(source.capture), kafka=resolve(KAFKA_CONNECTION))


def open_capture(source: SourcePlan) -> DebeziumCapture:
    hand_over_logins(source)
    client = ConnectClient(resolve(CONNECT_CONNECTION))
    return DebeziumCapture(source, client=client, endpoint=capture_endpoint(source))


def problems(source: SourcePlan) -> tuple[Problem, ...]:
    """What keeps Connect from running this source's capture, asked before anything is changed."""
    return open_capture(source).problems()


def open_topics(source: SourcePlan) -> PlannedTopics:
    return PlannedTopics(source, CaptureTopics(client_settings(resolve(KAFKA_CONNECTION))))
