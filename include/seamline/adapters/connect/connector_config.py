"""Settings of a source's connector, as a pure function of plan and tables. Secrets are named, never written.

Each setting that is not self-evident says why; the trials behind them ran on Debezium's MariaDB connector 3.5.0.Final.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from seamline.adapters.connect.endpoint import CaptureEndpoint, Start, offsets_topic
from seamline.domain.errors import ConfigError
from seamline.kinds.found import logged_kind
from seamline.plan.model import SourcePlan

_SECRET_NAME = re.compile(r"password|secret|token|credential|jaas|passphrase|private\.?key", re.IGNORECASE)
_REFERENCE = re.compile(r"\$\{[A-Za-z0-9_-]+:[^{}]+\}")


def connector_config(
    source: SourcePlan, tables: Sequence[str], *, endpoint: CaptureEndpoint, start: Start
) -> dict[str, str]:
    """All settings of the connector that carries `tables` (the marker table among them)."""
    connector = logged_kind(source.kind).connector()
    return {
        "tasks.max": "1",
        # Every record carries it as `source.name`: a record that strayed into the topic is known by it.
        "topic.prefix": source.connector,
        "database.hostname": endpoint.host,
        "database.port": str(endpoint.port),
        "database.user": endpoint.secret("user"),
        "database.password": endpoint.secret("password"),
        "connector.class": connector.plugin,
        **connector.settings(source, tables, endpoint, start),
        **_ORDER,
        **_VALUES,
        **_TROUBLE,
        **_delivery(source),
        # Debezium passes over it. Who watches the log's size obeys it as soon as the capture has been given it.
        LOG_MAX_GB: f"{source.log_max_gb:g}",
        **({LOG_BEHIND_MAX_GB: f"{source.log_behind_max_gb:g}"} if source.log_behind_max_gb else {}),
    }


LOG_MAX_GB = "seamline.log.max.gb"
LOG_BEHIND_MAX_GB = "seamline.log.behind.max.gb"
_ORDER = {
    "provide.transaction.metadata": "true",
    "skipped.operations": "none",
    "tombstones.on.delete": "false",
    "heartbeat.interval.ms": "10000",
}
_VALUES = {
    "decimal.handling.mode": "string",
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    # A header names the key that a row had before: only in one and the same writing it is found among the keys.
    "header.converter": "org.apache.kafka.connect.json.JsonConverter",
    "header.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    # Else an explicit NULL arrives as the column's DEFAULT.
    "value.converter.replace.null.with.default": "false",
}
_TROUBLE = {
    # The default `warn` writes NULL where a value cannot be converted.
    "event.converting.failure.handling.mode": "fail",
    "event.processing.failure.handling.mode": "fail",
    # The stream host's driver restarts a failed task: one retry owner.
    "errors.max.retries": "0",
    "errors.tolerance": "none",
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
    connector = logged_kind(kind).connector()
    wanted, tested = connector.plugin, connector.tested_versions
    versions = tuple(installed.get(wanted, ()))
    if not versions:
        return f"Connect has no plugin {wanted}"
    # Of several Connect takes the newest by itself.
    untested = [version for version in versions if version not in tested]
    if untested:
        return f"{wanted} {', '.join(untested)} was not tested; tested: {', '.join(tested)}"
    return ""
