"""Messages of Debezium's connectors by JsonConverter, with and without schemas: one table per topic.

As documented in "Data change events" of the connectors for MySQL and PostgreSQL (debezium.io/documentation/reference):
the envelope has `before`, `after`, `source`, `op` and `ts_ms`; a delete is followed by a tombstone.
"""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from seamline.domain.catalogue import Kind
from seamline.sources.kafka.layout import TopicTable
from seamline.sources.kafka.rows import (
    EMPTIES,
    Fields,
    Given,
    Said,
    changed,
    gone,
    gone_by_key,
    object_in,
    refuse_left_out,
    refuse_others,
    required,
    stands,
)
from seamline.sources.kafka.schemas import DECIMAL, departures, fields_of

_ENVELOPE = frozenset({"before", "after", "source", "op", "ts_ms", "ts_us", "ts_ns", "transaction"})
# How values stand in JSON, by the name of their schema.
_FORMS: Mapping[str, str] = MappingProxyType(
    {
        "io.debezium.time.Date": "days",
        "io.debezium.time.Timestamp": "ms",
        "io.debezium.time.MicroTimestamp": "us",
        "io.debezium.time.NanoTimestamp": "ns",
        "io.debezium.time.Time": "ms",
        "io.debezium.time.MicroTime": "us",
        "io.debezium.time.NanoTime": "ns",
        "org.apache.kafka.connect.data.Date": "days",
        "org.apache.kafka.connect.data.Timestamp": "ms",
        "org.apache.kafka.connect.data.Time": "ms",
    }
)


def said(given: Given, table: TopicTable) -> Iterator[Said]:
    """ValueError: it is no such message."""
    payload, schema = (None, None) if given.value is None else _parts(object_in(given.value, "value"), table)
    if payload is None:
        # Behind a delete, which compaction may have taken away: the row goes, again or now.
        yield _gone_of(given, table)
        return
    refuse_others(payload, _ENVELOPE)
    op = required(payload, "op", str)
    if op == "t":
        yield Said(EMPTIES, table.definition.name)
        return
    before, after = (_row(payload, schema, name, table) for name in ("before", "after"))
    yield from _of_row(op, before, after, given, table)


_Row = tuple[Fields, Mapping[str, str]] | None


def _of_row(op: str, before: _Row, after: _Row, given: Given, table: TopicTable) -> Iterator[Said]:
    match op, before, after:
        case "c" | "r", None, (row, forms):
            yield stands(table, row, forms)
        case "u", (was, _), (row, forms) if not table.definition.is_keyed or _holds_key(was, table):
            yield from changed(table, was, row, forms)
        case "u", _, (row, forms) if table.definition.is_keyed:
            yield stands(table, row, forms)
        case "d", (row, forms), None if not table.definition.is_keyed:
            yield gone(table, row, forms)
        case "d", (row, forms), None if _holds_key(row, table):
            yield gone_by_key(table, row, forms)
        case "d", _, None:
            yield _gone_of(given, table)
        case _:
            raise ValueError(
                f"its op is {op}, before {'' if before else 'not '}there and after {'' if after else 'not '}there"
                f"{'' if table.definition.is_keyed else ' (a table without a key needs whole rows before changes)'}"
            )


def _parts(document: Fields, table: TopicTable) -> tuple[Fields | None, Fields | None]:
    """Payload and schema."""
    is_wrapped = document.keys() == {"schema", "payload"}
    if is_wrapped != table.holds_schemas:
        raise ValueError(
            "it holds its schema: declare `schemas: true`" if is_wrapped else "it holds no schema: `schemas: false`"
        )
    if not is_wrapped:
        return document, None
    payload = required(document, "payload", (dict, type(None)))
    return payload, None if payload is None else required(document, "schema", dict)


def _row(payload: Fields, schema: Fields | None, name: str, table: TopicTable) -> _Row:
    row = payload.get(name)
    if row is None:
        return None
    if not isinstance(row, dict):
        raise TypeError(f"its `{name}` is no JSON object")
    refuse_left_out(table, row)
    if schema is None:
        return row, table.forms
    fields = fields_of(schema, name)
    if why := "; ".join(departures(fields, table)):
        raise ValueError(f"its schema is not the declared one of table {table.definition.name}: {why}")
    return row, _forms(fields, table)


def _forms(fields: Any, table: TopicTable) -> Mapping[str, str]:
    """By field, as the schema says it, else as it is declared. ValueError: they say two things, or neither says it."""
    bytes_columns = {one.name for one in table.definition.columns if one.kind is Kind.BYTES}
    found = dict(table.forms)
    for one in fields:
        name, form = one["field"], _form(one)
        declared = table.forms.get(name, "")
        if form and declared and declared != form.partition(":")[0]:
            said_there = form.partition(":")[0]
            raise ValueError(f"column {name} is {said_there} by the message's schema, and {declared} by its `form`")
        if name in bytes_columns and not form and not declared:
            raise ValueError(
                f"column {name} is of type {one.get('type')} by the message's schema: declare its `form`, base64 or hex"
            )
        found[name] = form or declared
    return found


def _form(field: Fields) -> str:
    """ "" where the schema leaves it open."""
    named = field.get("name", "")
    if named == DECIMAL:
        return f"base64:{field['parameters']['scale']}"
    # JsonConverter knows one way to write bytes.
    return _FORMS.get(named, "base64" if field.get("type") == "bytes" else "")


def _holds_key(row: Fields, table: TopicTable) -> bool:
    return all(row.get(name) is not None for name in table.definition.key)


def _gone_of(given: Given, table: TopicTable) -> Said:
    """That the row of the message's key goes. ValueError: it is no key."""
    return gone_by_key(table, *key_of(given, table))


def key_of(given: Given, table: TopicTable) -> tuple[Fields, Mapping[str, str]]:
    """The fields of the message's key, and their forms. ValueError, TypeError: it is no object."""
    key = object_in(given.key, "key")
    if key.keys() == {"schema", "payload"}:
        fields = required(key, "schema", dict).get("fields", ())
        return required(key, "payload", dict), _forms(fields, table)
    return key, table.forms
