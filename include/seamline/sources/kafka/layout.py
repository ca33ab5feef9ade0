"""What a declaration says of topics and their messages, as the plan of a source carries it."""

import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.column_types import column_of
from seamline.domain.errors import Refused
from seamline.plan.model import SourcePlan

LAYOUT = "layout"
DEBEZIUM, MAXWELL, CANAL, PLAIN = "debezium", "maxwell", "canal", "json"


@dataclass(frozen=True, slots=True)
class TopicTable:
    """`named`: `database.table` in messages of a topic that several tables share; "" elsewhere. `forms`: by column how
    its values stand in JSON, where not as numbers and ISO 8601. `known`: the fields that a row may have.
    `is_absent_null`: what a message leaves out is NULL. `holds_schemas`: each message of Debezium's does.
    `has_row_keys`: the key of a message of plain JSON is that of its row."""

    definition: Table
    topic: str
    format: str
    named: str
    forms: Mapping[str, str]
    known: frozenset[str]
    is_absent_null: bool
    holds_schemas: bool
    has_row_keys: bool


@dataclass(frozen=True, slots=True)
class Layout:
    """`left_out`: tables of shared topics that are not kept. `markers`: our own topic of markers."""

    tables: tuple[TopicTable, ...]
    left_out: frozenset[str]
    markers: str
    marker_table: str

    def of_sync(self, tables: Collection[str]) -> "Layout":
        """For these tables alone: the others of topics that they share are left out."""
        mine = tuple(one for one in self.tables if one.definition.name in tables)
        others = {one.named for one in self.tables} - {one.named for one in mine}
        return replace(self, tables=mine, left_out=self.left_out | others)

    def topics(self, tables: Iterable[str]) -> frozenset[str]:
        """Those that any of these tables comes from."""
        return frozenset(one.topic for one in map(self.of, tables) if one is not None)

    def of_topic(self, topic: str) -> tuple[TopicTable, ...]:
        return tuple(one for one in self.tables if one.topic == topic)

    def of(self, table: str) -> TopicTable | None:
        return next((one for one in self.tables if one.definition.name == table), None)


def layout_of(source: SourcePlan) -> Layout:
    text = dict(source.options).get(LAYOUT)
    if text is None:
        raise Refused(
            f"the plan of source {source.name} does not say which topics it reads",
            hint="it was made by an earlier version: run the onboarding again",
        )
    return _read(text, markers_topic(source), source.marker_table)


def markers_topic(source: SourcePlan) -> str:
    return f"{source.log_topic.removesuffix('.log')}.markers"


@lru_cache(maxsize=100)
def _read(text: str, markers: str, marker_table: str) -> Layout:
    document = json.loads(text)
    return Layout(tuple(map(_table, document["tables"])), frozenset(document["left_out"]), markers, marker_table)


def _table(said: Mapping[str, Any]) -> TopicTable:
    columns = tuple(
        replace(column_of(one["name"], one["type"]), nullable=one["nullable"] and one["name"] not in said["key"])
        for one in said["columns"]
    )
    return TopicTable(
        Table(said["table"], columns, tuple(said["key"])),
        said["topic"],
        said["format"],
        said["named"],
        {one["name"]: one["form"] for one in said["columns"] if one["form"]},
        frozenset((*(column.name for column in columns), *said["ignored"])),
        said["absent"] == "null",
        said["schemas"],
        said.get("message_key", "row") == "row",
    )
