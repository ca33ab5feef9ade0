"""Settings of Debezium's PostgreSQL connector 3.7.0.Final that no other source has."""

from collections.abc import Mapping, Sequence
from typing import Any

from seamline.adapters.connect.endpoint import MARKER_TABLE, CaptureEndpoint, Start, name_pattern
from seamline.databases.postgres.canonical import quoted
from seamline.domain.errors import InvariantViolated
from seamline.domain.position import Position
from seamline.domain.unavailable_values import UNAVAILABLE
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.position import PostgresPosition


def postgres_settings(
    source: SourcePlan, tables: Sequence[str], endpoint: CaptureEndpoint, start: Start
) -> dict[str, str]:
    """The same for every start: the slot keeps the position."""
    places = [source.places.of_captured(table) for table in sorted(tables)]
    schemas = sorted({source.schema, *(place.namespace for place in places)})
    return {
        "database.dbname": source.database,
        **_tls(endpoint),
        "schema.include.list": ",".join(name_pattern(schema) for schema in schemas),
        "table.include.list": ",".join(
            f"{name_pattern(place.namespace)}\\.{name_pattern(place.table)}" for place in places
        ),
        "plugin.name": "pgoutput",
        "slot.name": source.slot,
        "slot.drop.on.stop": "false",
        "publication.name": source.publication,
        # The owner of the tables makes and alters it: the capture role owns nothing.
        "publication.autocreate.mode": "disabled",
        MARKER_TABLE: f"{quoted(source.schema)}.{quoted(source.marker_table)}",
        "snapshot.mode": Start.AGAIN.value,
        # The default of 500 would cost 300 to 600 ms of latency, and 50 still 60 ms more than this.
        "poll.interval.ms": "20",
        # The slot moves on only behind what Kafka has taken, and the connector's own offset decides where it goes on.
        "lsn.flush.mode": "connector",
        "offset.mismatch.strategy": "trust_offset",
        # As ISO texts 24:00 comes as 00:00. What unit a number has follows from its column's planned precision.
        "time.precision.mode": "adaptive",
        # As `bytes` they come in base64, too. With `base64` a bytea that an update left alone comes as null (3.7.0).
        "binary.handling.mode": "bytes",
        # Else columns of unknown types are left out without a word.
        "include.unknown.datatypes": "true",
        # Messages of others (pg_logical_emit_message) are no rows; one that is not transactional would lie anywhere.
        "message.prefix.exclude.list": ".*",
        # Stands where an update did not touch a value that lies outside of its row.
        "unavailable.value.placeholder": UNAVAILABLE,
    }


def _tls(endpoint: CaptureEndpoint) -> dict[str, str]:
    made = {"database.sslmode": endpoint.tls.mode or "prefer"}  # libpq's default too
    if endpoint.tls.ca:
        made["database.sslrootcert"] = endpoint.file("ca.pem")
    if endpoint.tls.certificate:
        made |= {"database.sslcert": endpoint.file("cert.pem"), "database.sslkey": endpoint.file("key.pk8")}
    return made


class PostgresConnector:
    """`kinds.source.ConnectorKind`. The slot's records bring the tables' structure along."""

    plugin = "seamline.connect.PostgresConnector"
    # Older ones lose rows.
    tested_versions = ("3.7.0.Final-seamline-15",)
    keeps_schema_history = False

    def settings(
        self, source: SourcePlan, tables: Sequence[str], endpoint: CaptureEndpoint, start: Start
    ) -> Mapping[str, str]:
        return postgres_settings(source, tables, endpoint, start)

    def first_offset(self, position: Position) -> Mapping[str, Any]:
        if not isinstance(position, PostgresPosition):
            raise InvariantViolated(f"no capture of a WAL begins at {position}")
        return {"lsn": position.lsn}


CONNECTOR = PostgresConnector()
