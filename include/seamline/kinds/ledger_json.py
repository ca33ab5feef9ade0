"""A ledger and its boundaries as JSON, for kinds whose ledger is no row of a database."""

from collections.abc import Mapping
from typing import Any

from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import position_from_json, position_to_json


def boundary_to_json(boundary: Boundary) -> dict[str, Any]:
    return {
        "table": boundary.table,
        "position": position_to_json(boundary.position),
        "generation": boundary.generation,
        "high_marker": boundary.high_marker,
        "ended": boundary.ended,
        "fingerprint": boundary.fingerprint,
    }


def boundary_from_json(document: Mapping[str, Any]) -> Boundary:
    return Boundary(**{**document, "position": position_from_json(document["position"])})


def ledger_to_json(row: LedgerRow) -> dict[str, Any]:
    return {
        "topic": row.topic,
        "topic_id": row.topic_id,
        "next_offset": row.next_offset,
        "position": position_to_json(row.position),
        "epoch": row.epoch,
        "applied_transactions": row.applied_transactions,
        "committed_ms": row.committed_ms,
        "boundaries": [boundary_to_json(one) for one in row.boundaries],
        "last_marker": row.last_marker,
    }


def ledger_from_json(document: Mapping[str, Any], stream: StreamId) -> LedgerRow:
    """The inverse of `ledger_to_json`."""
    boundaries = tuple(map(boundary_from_json, document["boundaries"]))
    said = {**document, "position": position_from_json(document["position"]), "boundaries": boundaries}
    return LedgerRow(stream, **said)


def stream_of(text: str) -> StreamId:
    """The inverse of `str` of a stream's id."""
    sync, _, destination = text.rpartition("@")
    return StreamId(sync, destination)
