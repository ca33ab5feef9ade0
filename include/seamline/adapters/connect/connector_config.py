"""Settings of a source's connector, as a pure function of plan and tables. Secrets are named, never written.

Each setting that is not self-evident says why; the trials behind them ran on Debezium's MariaDB connector 3.5.0.Final.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seamline.domain.errors import ConfigError
from seamline.plan.model import SourcePlan

MARIADB_CONNECTOR = "io.debezium.connector.mariadb.MariaDbConnector"
# Versions that were run against kill -9, stop and resume, and huge transactions without loss. Older ones lose rows.
TESTED_VERSIONS = {MARIADB_CONNECTOR: ("3.5.0.Final",)}
CONNECTORS = {"mariadb": MARIADB_CONNECTOR}

_SECRET_NAME = re.compile(r"password|secret|token|credential|jaas|passphrase|private\.?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[A-Za-z0-9_-]+:[^{}]+\}")


class Start(StrEnum):
    """How the connector comes to know the tables' structure, as Debezium's `snapshot.mode`."""

    # From the tables as they are now: only right at the position where the capture begins.
    FIRST = "recovery"
    # From its schema history: a later `recovery` would read old rows with a newer structure.
    AGAIN = "no_data"


@dataclass(frozen=True, slots=True)
class CaptureEndpoint:
    """Where Connect finds the source and Kafka. `secrets_file` is a path on Connect's machine."""

    host: str
    port: int
    connection_id: str
    secrets_file: str
    kafka_servers: str
    ssl_mode: str = "disable"


def offsets_topic(source: SourcePlan) -> str:
    return f"{source.log_topic.removesuffix('.log')}.offsets"


def schema_history_topic(source: SourcePlan) -> str:
    return f"{source.log_topic.removesuffix('.log')}.schema-history"


def server_id(source: SourcePlan, endpoint: CaptureEndpoint) -> int:
    """A replica's id: stable for this capture, unlike that of another stack which captures the same server."""
    digest = hashlib.sha256(f"{endpoint.kafka_servers}/{source.connector}".encode()).digest()
    # Real servers have small numbers; the upper half of the 32 bits is ours.
    return 2**31 + int.from_bytes(digest[:4], "big") % (2**31 - 1)


def connector_config(
    source: SourcePlan, tables: Sequence[str], *, endpoint: CaptureEndpoint, start: Start
) -> dict[str, str]:
    """All settings of the MariaDB connector that carries `tables` (the marker table among them)."""
    return {
        **_identity(source, endpoint),
        **_scope(source, tables),
        "snapshot.mode": start.value,
        # The capture role has neither RELOAD nor LOCK TABLES, and no data is read by the connector.
        "snapshot.locking.mode": "none",
        **_schema_history(source, endpoint),
        **_ORDER,
        **_VALUES,
        **_TROUBLE,
        **_delivery(source),
        # Debezium passes over it. Who watches the log's size obeys it as soon as the capture has been given it.
        LOG_MAX_GB: f"{source.log_max_gb:g}",
    }


def _identity(source: SourcePlan, endpoint: CaptureEndpoint) -> dict[str, str]:
    secret = f"${{file:{endpoint.secrets_file}:{endpoint.connection_id}"
    return {
        "connector.class": CONNECTORS[source.kind],
        "tasks.max": "1",
        # Every record carries it as `source.name`: a record that strayed into the topic is known by it.
        "topic.prefix": source.connector,
        "database.hostname": endpoint.host,
        "database.port": str(endpoint.port),
        "database.user": f"{secret}.user}}",
        "database.password": f"{secret}.password}}",
        "database.ssl.mode": endpoint.ssl_mode,
        "database.server.id": str(server_id(source, endpoint)),
    }


def _scope(source: SourcePlan, tables: Sequence[str]) -> dict[str, str]:
    database = _pattern(source.database)
    return {
        "database.include.list": database,
        # Names only, never `.*`: a sequence or a versioned table caught by a pattern stops the task.
        "table.include.list": ",".join(f"{database}\\.{_pattern(table)}" for table in sorted(tables)),
    }


def _schema_history(source: SourcePlan, endpoint: CaptureEndpoint) -> dict[str, str]:
    return {
        "schema.history.internal.kafka.topic": schema_history_topic(source),
        "schema.history.internal.kafka.bootstrap.servers": endpoint.kafka_servers,
        # All tables of the database: one that is added later is then known as it was at the connector's offset.
        "schema.history.internal.store.only.captured.tables.ddl": "false",
        "schema.history.internal.store.only.captured.databases.ddl": "true",
        # A statement that cannot be parsed stops the capture: passing over it could shift columns unseen.
        "schema.history.internal.skip.unparseable.ddl": "false",
        "include.schema.changes": "true",
    }


LOG_MAX_GB = "seamline.log.max.gb"
_ORDER = {
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "heartbeat.interval.ms": "10000",
    # The default of 500 would cost 300 to 600 ms of latency.
    "poll.interval.ms": "50",
}
_VALUES = {
    "decimal.handling.mode": "string",
    "bigint.unsigned.handling.mode": "precise",
    "time.precision.mode": "adaptive_time_microseconds",
    # Else the year 1 arrives as 2001 (MySQL's rule for two digits, applied to stored values; 3.5.0.Final).
    "enable.time.adjuster": "false",
    "binary.handling.mode": "base64",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    # Else an explicit NULL arrives as the column's DEFAULT.
    "value.converter.replace.null.with.default": "false",
}
_TROUBLE = {
    # The default `warn` writes NULL where a value cannot be converted.
    "event.converting.failure.handling.mode": "fail",
    "event.processing.failure.handling.mode": "fail",
    "inconsistent.schema.handling.mode": "fail",
    # The stream host's driver restarts a failed task: one retry owner.
    "errors.max.retries": "0",
    "errors.tolerance": "none",
    # One transaction may be written as slowly as Kafka takes it.
    "binlog.net.write.timeout": "3600",
    "max.queue.size.in.bytes": str(128 * 1024 * 1024),
}


def _delivery(source: SourcePlan) -> dict[str, str]:
    return {
        # Rows, BEGIN, END, DDL and heartbeats in one topic: the source's commit order, in band.
        "transforms": "log",
        "transforms.log.type": "org.apache.kafka.connect.transforms.RegexRouter",
        "transforms.log.regex": ".*",
        "transforms.log.replacement": source.log_topic,
        "exactly.once.support": "required",
        # With the shared topic, a killed worker hangs at its next start until the dead transaction times out.
        "offsets.storage.topic": offsets_topic(source),
        "producer.override.client.id": source.connector,
        "producer.override.transaction.timeout.ms": "600000",
        "producer.override.compression.type": "lz4",
        "producer.override.max.request.size": str(32 * 1024 * 1024),
    }


def _pattern(name: str) -> str:
    """A name as the regular expression that matches it alone; Debezium splits its lists at commas not escaped."""
    return re.sub(r"([^\w])", r"\\\1", name)


def literal_secrets(config: Mapping[str, str]) -> tuple[str, ...]:
    """Settings that hold a secret in plain text: anyone who can reach Connect's REST could read it."""
    return tuple(
        sorted(
            name
            for name, value in config.items()
            if _SECRET_NAME.search(name) and value and not _names_its_secret(name, value)
        )
    )


def _names_its_secret(name: str, value: str) -> bool:
    # A JAAS line wraps its references in other words; every other secret is a reference and nothing else.
    return bool(_REFERENCE.search(value) if "jaas" in name else _REFERENCE.fullmatch(value))


def refuse_literal_secrets(connector: str, config: Mapping[str, str]) -> None:
    names = literal_secrets(config)
    if names:
        raise ConfigError(
            f"connector {connector} holds secrets in plain text: {', '.join(names)}",
            hint="delete the connector, change those secrets, and let Seamline create it: it writes ${file:…} only",
        )


def untested_version(kind: str, installed: Mapping[str, Iterable[str]]) -> str:
    """Why the installed connector cannot be used; "" when it can."""
    wanted = CONNECTORS[kind]
    versions = tuple(installed.get(wanted, ()))
    if not versions:
        return f"Connect has no plugin {wanted}"
    if not set(versions) & set(TESTED_VERSIONS[wanted]):
        return f"{wanted} {', '.join(versions)} was not tested; tested: {', '.join(TESTED_VERSIONS[wanted])}"
    return ""
