"""The connector of one source as a capture: what `sync.capture` asks for, in Connect's and Debezium's words."""

from collections.abc import Sequence
from typing import Any

from seamline import settings
from seamline.adapters.connect.connector_config import (
    CaptureEndpoint,
    Start,
    connector_config,
    offsets_topic,
    refuse_literal_secrets,
    schema_history_topic,
    untested_version,
)
from seamline.adapters.connect.rest import ConnectClient, ConnectorStatus
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import BinlogPosition, Position
from seamline.plan.model import SourcePlan
from seamline.ports import Problem

KAFKA_CONNECTION = "kafka"
CONNECT_CONNECTION = "connect"
_START_TIMEOUT_S = 120.0


class DebeziumCapture:
    """`CaptureConnector` of sync.capture for a MariaDB source."""

    def __init__(self, source: SourcePlan, *, client: ConnectClient, endpoint: CaptureEndpoint) -> None:
        self.name = source.connector
        self._source = source
        self._client = client
        self._endpoint = endpoint

    def problems(self) -> tuple[Problem, ...]:
        if not self._client.is_healthy():
            return (Problem(f"Connect at {self._client.url} is not ready", "start it: `seamline up`, then try again"),)
        reason = untested_version(self._source.kind, self._client.plugin_versions())
        if reason:
            return (Problem(reason, "install a tested version beside it; the stack's `jars.lock` names it"),)
        return ()

    def status(self) -> ConnectorStatus | None:
        return self._client.status(self.name)

    def create(self, tables: Sequence[str]) -> None:
        """Create it stopped, unless it is there; refuses one that holds a secret in plain text."""
        if self._client.config(self.name) is None:
            self._client.create_stopped(self.name, self._config(tables, Start.AGAIN))
        refuse_literal_secrets(self.name, self._client.config(self.name) or {})

    def is_seeded(self) -> bool:
        return self._client.offset(self.name) is not None

    def seed(self, position: Position, tables: Sequence[str]) -> None:
        """Let a stopped connector begin at `position`, which it reads structure for at its first start."""
        if not isinstance(position, BinlogPosition):
            raise InvariantViolated(f"a binlog capture cannot begin at {position}")
        self.set_tables(tables, start=Start.FIRST)
        offset = {"file": position.file, "pos": position.offset, "gtids": position.gtid}
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

    def start(self) -> ConnectorStatus:
        """Resume it, restart what failed, and wait: RUNNING, or FAILED with its trace."""
        before = self._client.status(self.name)
        self._client.resume(self.name)
        if before is not None and before.is_failed:
            self._client.restart_failed(self.name)
            self._client.wait_for(
                self.name, lambda s: s.trace != before.trace or s.is_running, what="to restart", timeout_s=30
            )
        return self._client.wait_for(
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
        self._client.delete(self.name)

    def _config(self, tables: Sequence[str], start: Start) -> dict[str, str]:
        return connector_config(self._source, tables, endpoint=self._endpoint, start=start)


class PlannedTopics:
    """`LogTopics` of sync.capture: the three topics of one source's capture."""

    def __init__(self, source: SourcePlan, topics: CaptureTopics) -> None:
        self._source = source
        self._topics = topics

    def ensure(self) -> str:
        """Create or check all of them; returns the log topic's id."""
        self._topics.ensure_schema_history(schema_history_topic(self._source))
        self._topics.ensure_connector_offsets(offsets_topic(self._source))
        return self._topics.ensure_log(self._source.log_topic)

    def end_offset(self) -> int:
        return self._topics.offsets(self._source.log_topic)[1]

    def size_bytes(self) -> int:
        return self._topics.size_bytes(self._source.log_topic)

    def last_record_ms(self) -> int:
        return self._topics.last_record_ms(self._source.log_topic)


def capture_endpoint(source: SourcePlan) -> CaptureEndpoint:
    """From the connections `connect` (extra `secrets_file`: a path on Connect's machine), `kafka` and the capture's."""
    connection, connect = resolve(source.capture), resolve(CONNECT_CONNECTION)
    extra: dict[str, Any] = dict(connection.extra)
    secrets_file = connect.extra.get("secrets_file") or settings.load().data / "connect" / "secrets.properties"
    kafka = client_settings(resolve(KAFKA_CONNECTION))
    return CaptureEndpoint(
        host=str(extra.get("host_for_connect") or connection.host),
        port=int(extra.get("port_for_connect") or connection.port),
        connection_id=source.capture,
        secrets_file=str(secrets_file),
        kafka_servers=str(connect.extra.get("kafka_servers") or kafka["bootstrap.servers"]),
        ssl_mode=str(extra.get("ssl_mode") or "disable"),
    )


def open_capture(source: SourcePlan) -> DebeziumCapture:
    client = ConnectClient(resolve(CONNECT_CONNECTION))
    return DebeziumCapture(source, client=client, endpoint=capture_endpoint(source))


def open_topics(source: SourcePlan) -> PlannedTopics:
    return PlannedTopics(source, CaptureTopics(client_settings(resolve(KAFKA_CONNECTION))))
