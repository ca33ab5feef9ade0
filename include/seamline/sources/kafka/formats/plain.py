"""Messages that are rows: a JSON object each; with a key, no value means that the row of the message's key goes."""

from collections.abc import Iterator, Mapping
from typing import Any

from seamline.domain.exact_json import parsed
from seamline.sources.kafka.layout import TopicTable
from seamline.sources.kafka.rows import Fields, Given, Said, gone, gone_by_key, object_in, stands

# By it Debezium's flattened rows say that a row goes (ExtractNewRecordState with `delete.tombstone.handling.mode`
# rewrite): true or false, as a text or as JSON's own.
_DELETED = "__deleted"
# The header by which a destination of kind kafka says that a copy of a row without a key goes.
_OP, _GOES = "op", "d"
_GOES_BY_FIELD: Mapping[Any, bool] = {"true": True, True: True, "false": False, False: False}


def said(given: Given, table: TopicTable) -> Iterator[Said]:
    """ValueError: it is no such message."""
    if given.value is None:
        yield gone_by_key(table, *key_of(given, table))
        return
    row, goes = _flattened(object_in(given.value, "value"), table)
    if not table.definition.is_keyed and (goes or given.headers.get(_OP) == _GOES):
        yield gone(table, row, table.forms)
        return
    # A key may stand in the message's key alone.
    lacking = [name for name in table.definition.key if name not in row]
    if lacking:
        key = _key(given, table)
        row = {**row, **{name: key[name] for name in lacking if name in key}}
    yield gone_by_key(table, row, table.forms) if goes else stands(table, row, table.forms)


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
    if isinstance(found, dict):
        return found
    if len(table.definition.key) != 1:
        raise ValueError(f"its key is no JSON object with {', '.join(table.definition.key) or 'any column'}")
    column = table.definition.key_columns[0]
    # A text of digits is no number where the column is a text.
    return {column.name: given.key if found != given.key and not isinstance(found, str) and _is_text(table) else found}


def _is_text(table: TopicTable) -> bool:
    return table.definition.key_columns[0].kind.value in ("string", "char")
