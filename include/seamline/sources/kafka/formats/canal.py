"""Flat messages of Canal: the rows of one event of one table, every value a text.

As its class `FlatMessage` holds them (alibaba/canal, protocol/FlatMessage.java, with `canal.mq.flatMessage = true`):
`database`, `table`, `type`, `isDdl`, `sql`, `data` and `old`, which has per row the values before an update of those
columns that it changed.
"""

from collections.abc import Iterator

from seamline.databases.mysql.binlog_decoder import altered_tables, dropped_database, emptied_table
from seamline.sources.kafka.formats.shared import SharedTopic, named_in
from seamline.sources.kafka.rows import (
    ALTERS,
    EMPTIES,
    Fields,
    Given,
    Said,
    changed,
    gone,
    object_in,
    required,
    stands,
)


def said(given: Given, topic: SharedTopic) -> Iterator[Said]:
    """ValueError: it is no such message, or of a table that nobody has declared."""
    message = object_in(given.value, "value")
    kind = required(message, "type", str)
    if required(message, "isDdl", bool):
        yield from _statement(kind, message, topic)
        return
    table = topic.of(message)
    if table is None:
        return
    rows = required(message, "data", list)
    if kind == "UPDATE":
        olds = required(message, "old", list)
        if len(olds) != len(rows):
            raise ValueError(f"it has {len(rows)} rows and {len(olds)} before them")
        for row, old in zip(rows, olds, strict=True):
            yield from changed(table, {**_row(row), **_row(old)}, _row(row), table.forms)
    elif kind in ("INSERT", "DELETE"):
        yield from (
            stands(table, _row(row), table.forms) if kind == "INSERT" else gone(table, _row(row), table.forms)
            for row in rows
        )
    else:
        raise ValueError(f"its type is {kind}")


def _statement(kind: str, message: Fields, topic: SharedTopic) -> Iterator[Said]:
    """Of tables that are not declared it says nothing of concern."""
    named, sql = named_in(message), str(message.get("sql") or kind)
    # Canal calls what it cannot read QUERY, and names no table of it.
    emptied = named if kind == "TRUNCATE" else _placed(message, emptied_table(sql))
    if emptied:
        table = topic.named(emptied)
        if table is not None:
            yield Said(EMPTIES, table.definition.name)
        return
    if dropped := dropped_database(sql):
        yield from (Said(ALTERS, one.definition.name, statement=sql) for one in topic.of_database(dropped))
        return
    # A rename may name the table by its new name alone.
    places = {_placed(message, one) for one in altered_tables(sql)}
    # An index changes no value, unless it is the primary key that goes.
    if kind not in ("CINDEX", "DINDEX", "QUERY"):
        places.add(named)
    found = {one.definition.name for one in map(topic.named, sorted(places)) if one is not None}
    yield from (Said(ALTERS, name, statement=sql) for name in sorted(found))


def _placed(message: Fields, named: tuple[str, str] | None) -> str:
    """A table of its statement; "" where there is none."""
    return "" if named is None else f"{named[0] or message['database']}.{named[1]}"


def _row(found: object) -> Fields:
    if not isinstance(found, dict):
        raise TypeError("a row of its `data` or `old` is no JSON object")
    return found
