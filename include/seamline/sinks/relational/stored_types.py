"""Columns of a table as MariaDB and MySQL store them, for those who read it without the plan that made it."""

import re
from collections.abc import Mapping
from dataclasses import replace

from seamline.databases.mysql.columns import ColumnFacts, column_from_facts
from seamline.domain.catalogue import Column, Kind
from seamline.sinks.relational.cut_columns import StoredColumn

_DIGITS = re.compile(r"\((\d+)(?:,(\d+))?\)")
# Whole numbers have two bytes at least: `types.py`.
_BOOLEAN = "tinyint"


def columns_of(stored: Mapping[str, StoredColumn]) -> tuple[Column, ...]:
    """SchemaConflict: a type that no sync writes."""
    return tuple(_column(one) for one in stored.values())


def _column(one: StoredColumn) -> Column:
    declared = one.type.partition(" COLLATE ")[0]
    found = _DIGITS.search(declared)
    first, second = (int(found[part] or 0) if found else 0 for part in (1, 2))
    facts = ColumnFacts(
        one.name,
        one.data_type.lower(),
        declared,
        characters=first,
        octets=first,
        precision=first,
        scale=second,
        fraction=first,
    )
    column = column_from_facts(facts)
    return replace(column, kind=Kind.BOOLEAN, length=0) if facts.data_type == _BOOLEAN else column
