"""What a declaration says of files and their rows, as the plan of a source carries it."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.column_types import column_of
from seamline.domain.errors import Refused
from seamline.files.dialect import Dialect
from seamline.plan.model import SourcePlan
from seamline.sources.files import patterns

LAYOUT = "layout"


@dataclass(frozen=True, slots=True)
class TableLayout:
    """`file`: pattern of its name, below the folder of a delivery; "" where the control file says it. `definition`:
    None where the control file says it. `forms`: by column how a date or moment is written, where not as ISO 8601
    has it. `header`, `trailer`: the fields of the records around the rows; () where there is none."""

    table: str
    file: str = ""
    definition: Table | None = None
    forms: Mapping[str, str] = field(default_factory=dict)
    header: Sequence[str] = ()
    trailer: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """`delivery`: pattern of the folder of a delivery, below `location`; "" is `location` itself. `flag_file` and
    `control_file`: patterns of names below that folder; `control_file` is "" where there is none. `unnamed`: what holds
    of tables that only the control file names."""

    location: str
    connection: str
    delivery: str
    flag_file: str
    control_file: str
    format: str
    dialect: Dialect
    tables: tuple[TableLayout, ...]
    unnamed: TableLayout

    def of(self, table: str) -> TableLayout:
        found = next((one for one in self.tables if one.table == table), None)
        return found or replace(self.unnamed, table=table)

    @property
    def has_versions(self) -> bool:
        return patterns.has(self.delivery, patterns.VERSION)

    def folder(self, business_date: date, version: int) -> str:
        return patterns.filled(self.delivery, business_date=business_date, version=version)

    def path(self, pattern: str, business_date: date, version: int, table: str = "") -> str:
        """Of a file of a delivery, below `location`."""
        name = patterns.filled(pattern, business_date=business_date, table=table, version=version)
        folder = self.folder(business_date, version)
        return f"{folder}/{name}" if folder else name


def layout_of(source: SourcePlan) -> Layout:
    document = json.loads(dict(source.options).get(LAYOUT, "null"))
    if document is None:
        raise Refused(
            f"the plan of source {source.name} does not say how its files lie",
            hint="it was made by an earlier version: run the onboarding again",
        )
    return Layout(
        source.namespace,
        source.reader,
        document["delivery"],
        document["flag_file"],
        document["control_file"],
        document["format"],
        Dialect(**document["csv"]),
        tuple(map(_table, document["tables"])),
        _table(document["unnamed"]),
    )


def _table(said: Mapping[str, Any]) -> TableLayout:
    columns = tuple(
        replace(column_of(one["name"], one["type"]), nullable=one["nullable"] and one["name"] not in said["key"])
        for one in said["columns"]
    )
    return TableLayout(
        said["table"],
        said["file"],
        Table(said["table"], columns, tuple(said["key"])) if columns else None,
        {one["name"]: one["form"] for one in said["columns"] if one["form"]},
        tuple(said["header"]),
        tuple(said["trailer"]),
    )
