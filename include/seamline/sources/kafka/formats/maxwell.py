"""Messages of Maxwell: a row each, many tables in one topic.

As documented in "Data format" (maxwells-daemon.io/dataformat): `database`, `table`, `type`, `ts`, `data`, and `old`
with the values before an update of those columns that it changed.
"""

from collections.abc import Iterator

from seamline.sources.kafka.formats.shared import SharedTopic, named_in
from seamline.sources.kafka.rows import ALTERS, Fields, Given, Said, changed, gone, object_in, required, stands

_ROWS_COME = frozenset({"insert", "bootstrap-insert"})
# They hold no row.
_BRACKETS = frozenset({"bootstrap-start", "bootstrap-complete"})
_OF_DATABASES = frozenset({"database-create", "database-alter", "database-drop"})
_OF_TABLES = frozenset({"table-create", "table-alter", "table-drop"})


def said(given: Given, topic: SharedTopic) -> Iterator[Said]:
    """ValueError: it is no such message, or of a table that nobody has declared."""
    message = object_in(given.value, "value")
    kind = required(message, "type", str)
    if kind in _OF_DATABASES or kind in _OF_TABLES:
        yield from _statement(kind, message, topic)
        return
    table = topic.of(message)
    if table is None or kind in _BRACKETS:
        return
    row = required(message, "data", dict)
    if kind in _ROWS_COME:
        yield stands(table, row, table.forms)
    elif kind == "update":
        yield from changed(table, {**row, **required(message, "old", dict)}, row, table.forms)
    elif kind == "delete":
        yield gone(table, row, table.forms)
    else:
        raise ValueError(f"its type is {kind}")


def _statement(kind: str, message: Fields, topic: SharedTopic) -> Iterator[Said]:
    """Of tables that are not declared it says nothing of concern."""
    sql = str(message.get("sql", kind))
    if kind in _OF_TABLES:
        altered = topic.named(named_in(message))
        tables = [altered] if altered is not None else []
    else:
        database = required(message, "database", str)
        tables = list(topic.of_database(database)) if kind == "database-drop" else []
    yield from (Said(ALTERS, one.definition.name, statement=sql) for one in tables)
