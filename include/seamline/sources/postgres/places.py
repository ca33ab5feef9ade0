"""The places of tables, as statements name them and as questions to the catalogue ask for them."""

from collections.abc import Iterable, Mapping
from typing import Any

from seamline.databases.postgres.read import Relation
from seamline.domain.table_places import TablePlace

# (oid of the schema, name) of each table that `asked_for` names; the oid is NULL where there is no such schema.
WANTED = (
    "SELECT to_regnamespace(quote_ident(w.schema_name))::oid, w.table_name"
    " FROM unnest(%(schemas)s::text[], %(tables)s::name[]) AS w (schema_name, table_name)"
)


def asked_for(places: Iterable[TablePlace]) -> Mapping[str, Any]:
    """The values of WANTED."""
    listed = list(places)
    return {"schemas": [place.namespace for place in listed], "tables": [place.table for place in listed]}


def relation_at(place: TablePlace) -> Relation:
    return Relation(place.namespace, place.table)
