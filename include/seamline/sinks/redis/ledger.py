"""The ledger of a stream as the fields of a hash."""

import json
from collections.abc import Mapping, Sequence

from seamline.domain.cutover import Boundary
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.domain.position import Position, position_from_json, position_to_json
from seamline.kinds.ledger_json import boundary_from_json, boundary_to_json
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.session import Session, translated

Fields = Mapping[str, str]


def read_fields(session: Session, keys: Keyspace, stream: StreamId) -> Fields:
    """Empty where nothing was ever published."""
    with translated("read the ledger"):
        return session.fields(keys.of_stream("ledger", stream))


def read_ledger(session: Session, keys: Keyspace, stream: StreamId) -> LedgerRow | None:
    fields = read_fields(session, keys, stream)
    return row_of(stream, fields) if fields else None


def fields_of(flat: Sequence[bytes]) -> Fields:
    """Of the answer of HGETALL inside a script."""
    texts = [one.decode() for one in flat]
    return dict(zip(texts[::2], texts[1::2], strict=True))


def row_of(stream: StreamId, fields: Fields) -> LedgerRow:
    return LedgerRow(
        stream,
        fields["topic"],
        fields["topic_id"],
        int(fields["next_offset"]),
        position_of(fields["position"]),
        int(fields["epoch"]),
        int(fields["applied_transactions"]),
        int(fields["committed_ms"]),
        tuple(boundary_from_json(one) for one in json.loads(fields["boundaries"])),
        fields["last_marker"],
    )


def place_of(row: LedgerRow) -> list[str]:
    """What a script compares before it writes."""
    return [row.topic_id, str(row.next_offset), str(row.epoch)]


def position_of(text: str) -> Position:
    return position_from_json(json.loads(text))


def position_text(position: Position) -> str:
    return json.dumps(position_to_json(position))


def boundaries_text(boundaries: Sequence[Boundary]) -> str:
    ordered = sorted(boundaries, key=lambda one: one.table)
    return json.dumps([boundary_to_json(one) for one in ordered])


def generations_of(fields: Fields) -> dict[str, int]:
    """How often each table of the stream was put in place, also of those that have left it."""
    found: dict[str, int] = json.loads(fields.get("generations", "{}"))
    return found


def generations_text(lives: Mapping[str, int]) -> str:
    return json.dumps(dict(sorted(lives.items())))
