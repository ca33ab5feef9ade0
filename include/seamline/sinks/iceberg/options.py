"""What a declaration says of an Iceberg destination beyond connections and namespace, as its plan carries it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from seamline.domain.errors import ConfigError, Refused
from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.layout import TableLayout

NATIVE, SPARK = "native", "spark"
FORMAT: Final = 2
# What catalogue it is: Iceberg's own in PostgreSQL, one behind a REST server, or one that commits single tables.
JDBC, REST, HIVE, GLUE = "jdbc", "rest", "hive", "glue"
SINGLE = (HIVE, GLUE)
# What such a catalogue makes of a destination.
SINGLE_KIND = "iceberg_single"


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """`catalog`: the catalogue's name, by which all its clients call it. `warehouse`: a folder, or the URL of a store;
    `warehouse_connection`: id of what leads there. `layouts`: of tables with partitions or an order.
    `catalog_connection`: id of what leads to a catalogue that commits single tables; "" for the machine's own."""

    catalog: str
    warehouse: str
    write: str = NATIVE
    format_version: int = FORMAT
    layouts: Mapping[str, TableLayout] = field(default_factory=dict)
    warehouse_connection: str = ""
    catalog_type: str = JDBC
    catalog_connection: str = ""

    @property
    def is_rest(self) -> bool:
        return self.catalog_type == REST

    @property
    def is_single(self) -> bool:
        """Whether its catalogue commits one table at a time."""
        return self.catalog_type in SINGLE

    def layout(self, table: str) -> TableLayout:
        return self.layouts.get(table, TableLayout())


def options_of(destination: DestinationPlan) -> LakeOptions:
    found = dict(destination.options)
    try:
        return LakeOptions(
            found["catalog"],
            found["warehouse"],
            found.get("write", NATIVE),
            int(found.get("format_version", FORMAT)),
            {name: TableLayout.of(said) for name, said in json.loads(found.get("layouts", "{}")).items()},
            found.get("warehouse_connection", ""),
            found.get("catalog_type", JDBC),
            found.get("catalog_connection", ""),
        )
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc


def require_certifiable(destination: DestinationPlan) -> None:
    """ConfigError: a certificate of such a destination is not built."""
    options = options_of(destination)
    if options.catalog_type != JDBC:
        raise ConfigError(
            f"destination {destination.name} has a catalogue of type {options.catalog_type}, and certificates are of"
            " jdbc catalogues alone",
            hint="certify a sync into one that has a catalogue in PostgreSQL: files and types are the same",
        )
    if options.write == SPARK:
        raise ConfigError(
            f"destination {destination.name} is written by Spark, which a certificate has no session of",
            hint="certify a sync into one with `write: native`: loads and types are the same",
        )
