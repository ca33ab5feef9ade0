"""Settings of Debezium's connectors to a binlog, MariaDB's and MySQL's, that no other source has."""

import hashlib
from collections.abc import Mapping, Sequence

from seamline.adapters.connect.endpoint import (
    DATABASES,
    MARKER_TABLE,
    CaptureEndpoint,
    Start,
    name_pattern,
    schema_history_topic,
)
from seamline.databases.mysql.canonical import quoted
from seamline.plan.model import SourcePlan


def server_id(source: SourcePlan, endpoint: CaptureEndpoint) -> int:
    """A replica's id: stable for this capture, unlike that of another stack which captures the same server."""
    digest = hashlib.sha256(f"{endpoint.kafka_servers}/{source.connector}".encode()).digest()
    # Real servers have small numbers; the upper half of the 32 bits is ours.
    return 2**31 + int.from_bytes(digest[:4], "big") % (2**31 - 1)


def binlog_settings(
    source: SourcePlan, tables: Sequence[str], endpoint: CaptureEndpoint, start: Start, *, tls_modes: Mapping[str, str]
) -> dict[str, str]:
    """`tls_modes`: how the connector calls those of a connection, where it has other words for them."""
    return {
        **_tls(endpoint, tls_modes),
        "database.server.id": str(server_id(source, endpoint)),
        **_scope(source, tables),
        MARKER_TABLE: f"{quoted(source.database)}.{quoted(source.marker_table)}",
        "snapshot.mode": start.value,
        # The capture role has neither RELOAD nor LOCK TABLES, and no data is read by the connector.
        "snapshot.locking.mode": "none",
        **_schema_history(source, endpoint),
        # The default of 500 would cost 300 to 600 ms of latency. With 20 half of all changes are visible after 22 ms
        # instead of 45, and a stack at rest takes 18 % of a core instead of 12.
        "poll.interval.ms": "50",
        "binary.handling.mode": "base64",
        "bigint.unsigned.handling.mode": "precise",
        "time.precision.mode": "adaptive_time_microseconds",
        # Else the year 1 arrives as 2001 (MySQL's rule for two digits, applied to stored values; 3.5.0.Final).
        "enable.time.adjuster": "false",
        "inconsistent.schema.handling.mode": "fail",
        # One transaction may be written as slowly as Kafka takes it.
        "binlog.net.write.timeout": "3600",
        # Its binlog client would connect again by itself, in the middle of a transaction too, and its place would then
        # lie behind what it has not sent (ADR 15, 16). A silent session is the watch's business.
        "connect.keep.alive": "false",
        # The server's own heartbeats follow this: an idle capture then writes every 16 s and does not look silent.
        "connect.keep.alive.interval.ms": "10000",
    }


def _scope(source: SourcePlan, tables: Sequence[str]) -> dict[str, str]:
    places = [source.places.of_captured(table) for table in sorted(tables)]
    return {
        DATABASES: ",".join(map(name_pattern, (source.database, *sorted(source.databases)))),
        # Names only, never `.*`: a sequence or a versioned table caught by a pattern stops the task.
        "table.include.list": ",".join(
            f"{name_pattern(place.namespace)}\\.{name_pattern(place.table)}" for place in places
        ),
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
        # It is read once, at a start. Its consumer closes when the fetch that is out has come back, by Kafka's own
        # setting half a second later.
        "schema.history.internal.consumer.fetch.max.wait.ms": "50",
        "include.schema.changes": "true",
        **{
            f"schema.history.internal.{client}.{name}": value
            for client in ("producer", "consumer")
            for name, value in endpoint.kafka_security.items()
        },
    }


def _tls(endpoint: CaptureEndpoint, modes: Mapping[str, str]) -> dict[str, str]:
    """For its JDBC sessions and its binlog client both."""
    mode = endpoint.tls.mode
    made = {"database.ssl.mode": modes.get(mode, mode)}
    stores = {"truststore": endpoint.tls.ca, "keystore": endpoint.tls.certificate}
    for store, is_there in stores.items():
        if is_there:
            made[f"database.ssl.{store}"] = endpoint.file(f"{store}.p12")
            made[f"database.ssl.{store}.password"] = endpoint.secret("store_password")
    return made
