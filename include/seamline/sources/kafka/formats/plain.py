"""Messages that are rows: a JSON object each; with a key, no value means that the row of the message's key goes."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

import orjson

from seamline.domain.catalogue import Kind
from seamline.domain.exact_json import parsed
from seamline.domain.masking import MASK, NOTHING_SAYS, masked_key
from seamline.sources.kafka.layout import TopicTable
from seamline.sources.kafka.rows import (
    STAND_INS,
    Fields,
    Given,
    OtherKey,
    Said,
    gone,
    gone_by_key,
    key_image,
    object_in,
    refuse_left_out,
    stands,
)

# By it Debezium's flattened rows say that a row goes (ExtractNewRecordState with `delete.tombstone.handling.mode`
# rewrite): true or false, as a text or as JSON's own.
_DELETED = "__deleted"
# The header by which a destination of kind kafka says that a copy of a row without a key goes.
_OP, _GOES = "op", "d"
# Without schemas JsonConverter writes a row that goes so where only its schema is left, as behind Debezium's transform
# with `delete.tombstone.handling.mode` tombstone.
_NO_VALUE = (None, "null")
# Kinds of which a bare key is a text, whatever it looks like.
_TEXTS = (Kind.STRING, Kind.CHAR, Kind.BYTES, Kind.UUID)
_WITH_SCHEMA = {"schema", "payload"}
_GOES_BY_FIELD: Mapping[Any, bool] = {"true": True, True: True, "false": False, False: False}


def said(given: Given, table: TopicTable) -> Iterator[Said]:
    """ValueError: it is no such message."""
    if given.value in _NO_VALUE:
        yield _gone_of(given, table)
        return
    row, goes = _flattened(object_in(given.value, "value"), table)
    if row.keys() == _WITH_SCHEMA and not row.keys() <= table.known:
        raise ValueError("it holds its schema: let its writer's converter say `schemas.enable: false`")
    if any(stand_in in str(given.value) for stand_in in STAND_INS):
        refuse_left_out(table, row)
    if not table.definition.is_keyed and (goes or given.headers.get(_OP) == _GOES):
        yield gone(table, row, table.forms)
        return
    # A key may stand in the message's key alone.
    lacking = [name for name in table.definition.key if name not in row]
    if lacking and table.has_row_keys:
        key = _key(given, table)
        row = {**row, **{name: key[name] for name in lacking if name in key}}
    found = gone_by_key(table, row, table.forms) if goes else stands(table, row, table.forms)
    _require_key(given, found, row, table)
    yield found


def _gone_of(given: Given, table: TopicTable) -> Said:
    if not table.has_row_keys:
        raise ValueError("it has no value, and by `message_key: other` its key is not that of the row which goes")
    return gone_by_key(table, *key_of(given, table))


def _require_key(given: Given, said: Said, row: Fields, table: TopicTable) -> None:
    """OtherKey: the message's key is not its row's. Without order by it an older row might replace a newer one, and a
    message without a value would take another row away."""
    if given.key is None or said.key is None or not table.has_row_keys:
        return
    if _is_alike(given.key, row, said.key, table):
        return
    try:
        key = _key(given, table)
    except ValueError:
        shown = MASK
    else:
        if _is_key(key, said.key, table):
            return
        shown = masked_key(json.dumps(key, default=str), NOTHING_SAYS, said.table)
    raise OtherKey(
        f"its key {shown} is not the key {masked_key(said.key.decode(), NOTHING_SAYS, said.table)} of its row; where it"
        " is another by intent, declare `message_key: other`"
    )


def _is_key(key: Fields, wanted: bytes, table: TopicTable) -> bool:
    try:
        return key_image(table, key, table.forms) == wanted
    except ValueError:
        return False


def _is_alike(key: str, row: Fields, wanted: bytes, table: TopicTable) -> bool:
    """Whether it is written as keys mostly are, the text of a key of one column or what stands in the row, so that
    nobody has to read it."""
    names = table.definition.key
    try:
        if len(names) == 1 and orjson.dumps({names[0]: key}) == wanted:
            return True
        return orjson.dumps({name: row.get(name) for name in names}, default=str) == key.encode()
    except TypeError:
        return False


def _flattened(row: Fields, table: TopicTable) -> tuple[Fields, bool]:
    """The row without what Debezium adds, and whether it goes. ValueError: nobody knows. Of a table that has such a
    column it is a value like others."""
    if _DELETED not in row or _DELETED in {column.name for column in table.definition.columns}:
        return row, False
    rest = {name: value for name, value in row.items() if name != _DELETED}
    if row[_DELETED] not in _GOES_BY_FIELD:
        raise ValueError(f"its field {_DELETED} is {row[_DELETED]!r}, which is neither true nor false")
    return rest, _GOES_BY_FIELD[row[_DELETED]]


def key_of(given: Given, table: TopicTable) -> tuple[Fields, Mapping[str, str]]:
    """The fields of the message's key, and their forms. ValueError: it is no key."""
    return _key(given, table), table.forms


def _key(given: Given, table: TopicTable) -> Fields:
    """By column; of a key of one column the value alone will do, as text or as JSON."""
    if given.key is None:
        raise ValueError("it has no key")
    try:
        found = parsed(given.key)
    except ValueError:
        found = given.key
    if isinstance(found, dict) and found.keys() == _WITH_SCHEMA:
        found = found["payload"]
    if isinstance(found, dict):
        return found
    if len(table.definition.key) != 1:
        raise ValueError(f"its key is no JSON object with {', '.join(table.definition.key) or 'any column'}")
    column = table.definition.key_columns[0]
    # A text of digits is no number where the column is a text.
    return {column.name: given.key if found != given.key and not isinstance(found, str) and _is_text(table) else found}


def _is_text(table: TopicTable) -> bool:
    return table.definition.key_columns[0].kind in _TEXTS
