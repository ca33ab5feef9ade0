"""Tables of a PostgreSQL source as its own catalogue describes them."""

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from seamline.databases.postgres.canonical import quoted
from seamline.databases.postgres.native_types import COMPOSITE
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.domain.table_places import TablePlace
from seamline.plan.model import SourcePlan
from seamline.ports import Problem, Survey
from seamline.sources.postgres.client import Session
from seamline.sources.postgres.composites import FIELDS, composite_fault
from seamline.sources.postgres.origin import read_origins
from seamline.sources.postgres.places import WANTED, asked_for

_INTEGER_BITS = {"int2": 16, "int4": 32, "int8": 64}
_FRACTIONS = {
    "timestamp": Kind.DATETIME,
    "timestamptz": Kind.INSTANT,
    "time": Kind.TIME_OF_DAY,
}
_PLAIN = {
    "float4": Kind.FLOAT,
    "float8": Kind.DOUBLE,
    "bool": Kind.BOOLEAN,
    "text": Kind.STRING,
    "bytea": Kind.BYTES,
    "date": Kind.DATE,
    "interval": Kind.INTERVAL,
    "json": Kind.JSON,
    "jsonb": Kind.JSONB,
    "uuid": Kind.UUID,
}
# Types that a destination has too, by pg_type.typtype.
_NATIVE = {
    "b": frozenset({"inet", "cidr", "macaddr", "macaddr8", "tsvector"}),
    "r": frozenset({"int4range", "int8range", "numrange", "tsrange", "tstzrange", "daterange"}),
    "m": frozenset(
        {"int4multirange", "int8multirange", "nummultirange", "tsmultirange", "tstzmultirange", "datemultirange"}
    ),
}
# Of extensions, which a destination need not have: kept as what is there.
_EXTENSIONS = {"citext": Kind.STRING, "ltree": Kind.STRING, "hstore": Kind.JSONB}
# So long is always written into the row itself: what lies outside of it the log may leave out.
_BITS_MAX = 128
# Why not, and the type that keeps the same values, with what computes it.
_UNSUPPORTED = {
    "timetz": ("the log lacks its zone", "text USING {column}::text"),
    "money": ("its text follows the server's lc_monetary", "numeric(19,2)"),
    "varbit": ("the log lacks its length", "text USING {column}::text"),
    "name": ("it is a type of the server's own catalogue", "text"),
    "char": ("it is a type of the server's own catalogue", "text"),
}
_ARRAY = (
    "arrays are not supported: the log lacks the inside of those with two dimensions",
    "jsonb USING to_jsonb({column})",
)
# atttypmod of a fraction that was not declared, and PostgreSQL's own default for it.
_UNDECLARED = -1
_MICROSECONDS = 6
# atttypmod counts the length word of a varlena.
_HEADER = 4
_LENGTHS = {"varchar": _HEADER, "bpchar": _HEADER, "bit": 0}
_GENERATED = (
    "a generated column is not in the log. PostgreSQL 18 publishes one that is STORED: ALTER PUBLICATION … SET"
    " (publish_generated_columns = stored)"
)
_COLUMN_CURE = "leave the table out of the sync, or change the column's type at the source"
_OTHER_KINDS = {
    "v": "is a view: name the tables it reads",
    "m": "is a materialized view: name the tables it reads",
    "f": "is a foreign table: its rows are not in this server's log",
    "S": "is a sequence, not a table",
}


@dataclass(frozen=True, slots=True)
class ColumnFacts:
    """One row of pg_attribute with its type. A domain is given as its base type, with the modifier of that.

    `is_generated`: computed by the server, and not published. `is_of_server`: of no extension and nobody's own.
    `fields`: the plain types inside of a composite one, of all levels; `field_count` those of the first.

    `type_kind` is pg_type.typtype (`b` base, `e` enum, `c` composite, `r` range …), `shown` what format_type prints.
    `toastable`: its values may lie outside of the row. That goes by the type alone: SET STORAGE PLAIN moves none of
    those that lie there.
    """

    name: str
    type_name: str
    type_kind: str
    shown: str
    modifier: int = _UNDECLARED
    nullable: bool = True
    is_array: bool = False
    is_generated: bool = False
    is_of_server: bool = True
    toastable: bool = False
    fields: Sequence[str] = ()
    field_count: int = 0


def read_catalogue(session: Session, source: SourcePlan, tables: Sequence[str]) -> tuple[Table, ...]:
    """The tables in the order asked. SchemaConflict names every unknown table and every column that cannot be kept."""
    return survey(session, source, tables).whole()


def survey(session: Session, source: SourcePlan, tables: Sequence[str]) -> Survey:
    """Which of these tables of a sync are there and can be kept."""
    return survey_at(session, source.publication, {name: source.places.of(name) for name in tables})


def survey_at(session: Session, publication: str, places: Mapping[str, TablePlace]) -> Survey:
    """As `survey`; `places` by the name that the tables get."""
    listed = _listed(session, sorted({place.namespace for place in places.values()}))
    missing = {
        name: fault
        for name, place in places.items()
        if (fault := table_fault(place.table, listed.get(place.namespace, {})))
    }
    problems = [
        Problem(f"schema {places[name].namespace}: {fault}", "correct `tables` of the sync", table=name)
        for name, fault in missing.items()
    ]
    there = {name: place for name, place in places.items() if name not in missing}
    columns = _columns(session, publication, there.values())
    keys = _keys(session, there.values())
    origins = read_origins(session, publication, there.values())
    found = []
    for name, place in there.items():
        rows = listed[place.namespace][place.table][1]
        table, faults = table_from_facts(name, columns.get(place, []), keys.get(place, ()), rows_estimate=rows)
        problems += [Problem(f"schema {place.namespace}: {fault}", _COLUMN_CURE, table=name) for fault in faults]
        found += [] if faults else [replace(table, origin=origins.get(place, ""))]
    return Survey(tuple(found), tuple(problems))


def table_fault(name: str, listed: Mapping[str, tuple[str, int]]) -> str:
    """Why a wanted name is no table to keep; "" where it is one. `listed`: name → (pg_class.relkind, rows)."""
    if name not in listed:
        near = difflib.get_close_matches(name, list(listed), n=1)
        return f'there is no table "{name}"' + (f', did you mean "{near[0]}"?' if near else "")
    relkind = listed[name][0]
    if relkind in ("r", "p"):
        return ""
    return f'"{name}" {_OTHER_KINDS.get(relkind, f"is a relation of kind {relkind}")}'


def table_from_facts(
    name: str, columns: Sequence[ColumnFacts], key: Sequence[str], *, rows_estimate: int = 0
) -> tuple[Table, list[str]]:
    """The table, and what is wrong with its columns; a faulty column is left out of the table."""
    kept, faults = [], [] if columns else [f'"{name}" has no columns']
    for facts in columns:
        fault = unsupported(facts) or (_key_fault(facts) if facts.name in key else "")
        if fault:
            faults.append(f'"{name}"."{facts.name}" {facts.shown}: {fault}')
        else:
            kept.append(column_from_facts(facts))
    return Table(name, tuple(kept), tuple(key), rows_estimate), faults


def unsupported(facts: ColumnFacts) -> str:
    """Why a column cannot be kept exactly; "" where it can."""
    if facts.is_generated:
        return _GENERATED
    if facts.type_kind == "c" and (fault := composite_fault(facts.fields)):
        return _kept_otherwise(facts, fault, "jsonb USING to_jsonb({column})")
    known = _UNSUPPORTED.get(facts.type_name) if facts.type_kind == "b" else None
    if reason := _ARRAY if facts.is_array else known:
        return _kept_otherwise(facts, *reason)
    if _kind(facts) is None:
        return _kept_otherwise(facts, "the type is not supported yet", "text USING {column}::text")
    if facts.type_name == "numeric" and _scale(facts.modifier) < 0:
        return "a negative scale is not supported: the log writes such values wrongly"
    if facts.type_name == "interval" and facts.modifier != _UNDECLARED:
        return "an interval with limited fields or precision is not supported yet"
    return ""


def _kept_otherwise(facts: ColumnFacts, why: str, kept_as: str) -> str:
    column = quoted(facts.name)
    return f"{why}. Keep it as another type: ALTER COLUMN {column} TYPE {kept_as.format(column=column)}"


def _key_fault(facts: ColumnFacts) -> str:
    """In a key, values that are equal must be written alike: the log distinguishes keys by their text."""
    if facts.type_name == "numeric" and facts.modifier == _UNDECLARED:
        return "in a primary key numeric needs a declared precision and scale: 1.0 and 1.00 would be two keys"
    if facts.type_name in ("float4", "float8"):
        return "a floating point number is no exact key"
    if facts.type_name in ("interval", "jsonb", "hstore") or facts.type_kind in "rmc":
        return "such a key is written in several ways"
    return ""


def column_from_facts(facts: ColumnFacts) -> Column:
    kind = _kind(facts)
    if kind is None:
        raise SchemaConflict(f"column {facts.name} has the type {facts.shown}, which is not supported")
    length, precision, scale = 0, 0, 0
    declared = facts.modifier != _UNDECLARED
    if kind is Kind.INTEGER:
        length = _INTEGER_BITS[facts.type_name]
    elif facts.type_name in _LENGTHS and declared:
        length = facts.modifier - _LENGTHS[facts.type_name]
    elif kind is Kind.DECIMAL and declared:
        precision, scale = (facts.modifier - _HEADER) >> 16, _scale(facts.modifier)
    elif kind in (Kind.DATETIME, Kind.INSTANT, Kind.TIME_OF_DAY):
        precision = facts.modifier if declared else _MICROSECONDS
    elif facts.type_kind == "c":
        precision = facts.field_count
    native = _native(facts, kind)
    toastable = facts.toastable and not native.startswith("bit(")
    return Column(facts.name, kind, facts.shown, facts.nullable, length, precision, scale, toastable, native)


def _native(facts: ColumnFacts, kind: Kind) -> str:
    if facts.type_kind == "c":
        return COMPOSITE
    if kind is Kind.NATIVE and facts.type_name == "bit":
        return f"bit({facts.modifier})"
    is_of_extension = facts.type_kind == "b" and facts.type_name in _EXTENSIONS
    return facts.type_name if kind is Kind.NATIVE or is_of_extension else ""


def _kind(facts: ColumnFacts) -> Kind | None:
    if facts.type_kind in "ec":
        return Kind.ENUM if facts.type_kind == "e" else Kind.STRING
    name = facts.type_name
    if facts.is_of_server and name in _NATIVE.get(facts.type_kind, ()):
        return Kind.NATIVE
    if facts.type_kind != "b":
        return None
    if not facts.is_of_server:
        return _EXTENSIONS.get(name)
    if name == "bit":
        return Kind.NATIVE if 0 < facts.modifier <= _BITS_MAX else None
    if name in _INTEGER_BITS:
        return Kind.INTEGER
    if name == "bpchar":
        # `char` without a length, which only a cast or `bpchar` alone declares, is not padded.
        return Kind.CHAR if facts.modifier != _UNDECLARED else None
    return {"numeric": Kind.DECIMAL, "varchar": Kind.STRING, **_FRACTIONS, **_PLAIN}.get(name)


def _scale(modifier: int) -> int:
    """The scale of a numeric's atttypmod: 11 bits with a sign since PostgreSQL 15 (numeric.c, numeric_typmod_scale)."""
    return 0 if modifier == _UNDECLARED else (((modifier - _HEADER) & 0x7FF) ^ 1024) - 1024


def _listed(session: Session, schemas: Sequence[str]) -> dict[str, dict[str, tuple[str, int]]]:
    """By schema: everything that lies there."""
    rows = session.execute(
        "SELECT n.nspname, c.relname, c.relkind, CASE c.relkind WHEN 'p' THEN"
        " (SELECT coalesce(sum(greatest(p.reltuples, 0)), 0)"
        " FROM pg_partition_tree(c.oid) t JOIN pg_class p ON p.oid = t.relid WHERE t.isleaf)::bigint"
        " ELSE greatest(c.reltuples, 0)::bigint END FROM pg_class c"
        " JOIN pg_namespace n ON n.oid = c.relnamespace"
        " WHERE n.nspname = ANY(%s) AND c.relkind IN ('r', 'v', 'm', 'f', 'p', 'S')",
        (list(schemas),),
    ).fetchall()
    found: dict[str, dict[str, tuple[str, int]]] = {}
    for schema, name, relkind, count in rows:
        found.setdefault(str(schema), {})[str(name)] = (str(relkind), int(count))
    return found


def _columns(session: Session, publication: str, places: Collection[TablePlace]) -> dict[TablePlace, list[ColumnFacts]]:
    rows = session.execute(
        # A domain over a domain ends at its base type; the modifier is that of the domain that has one.
        "WITH RECURSIVE base AS ("
        " SELECT oid AS domain, oid, typtype, typbasetype, typtypmod, typnotnull FROM pg_type"
        " UNION ALL SELECT b.domain, t.oid, t.typtype, t.typbasetype,"
        " CASE WHEN b.typtypmod <> -1 THEN b.typtypmod ELSE t.typtypmod END, b.typnotnull OR t.typnotnull"
        " FROM base b JOIN pg_type t ON t.oid = b.typbasetype WHERE b.typtype = 'd')"
        " SELECT n.nspname, c.relname, a.attname, t.typname, t.typtype, format_type(a.atttypid, a.atttypmod),"
        " CASE WHEN a.atttypmod <> -1 THEN a.atttypmod ELSE b.typtypmod END, a.attnotnull OR b.typnotnull,"
        # Before PostgreSQL 18 a publication has no such column, and publishes none of them.
        " t.typcategory = 'A', a.attgenerated <> '' AND NOT (a.attgenerated = 's' AND coalesce("
        "(SELECT to_jsonb(p) ->> 'pubgencols' = 's' FROM pg_publication p WHERE p.pubname = %(publication)s), false)),"
        f" t.oid < 16384, a.attlen = -1, {FIELDS}"
        " FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " JOIN base b ON b.domain = a.atttypid AND b.typtype <> 'd' JOIN pg_type t ON t.oid = b.oid"
        f" WHERE (c.relnamespace, c.relname) IN ({WANTED}) AND a.attnum > 0 AND NOT a.attisdropped"
        " ORDER BY c.oid, a.attnum",
        {**asked_for(places), "publication": publication},
    ).fetchall()
    found: dict[TablePlace, list[ColumnFacts]] = {}
    for schema, table, name, type_name, type_kind, shown, modifier, certain, *more in rows:
        facts = ColumnFacts(name, type_name, type_kind, shown, modifier, not certain, *more)
        found.setdefault(TablePlace(schema, table), []).append(facts)
    return found


def _keys(session: Session, places: Collection[TablePlace]) -> dict[TablePlace, tuple[str, ...]]:
    rows = session.execute(
        "SELECT n.nspname, c.relname, array_agg(a.attname::text ORDER BY k.place) FROM pg_index i"
        " JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace"
        " CROSS JOIN LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (attnum, place)"
        " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum"
        f" WHERE (c.relnamespace, c.relname) IN ({WANTED}) AND i.indisprimary AND k.place <= i.indnkeyatts"
        " GROUP BY n.nspname, c.relname",
        asked_for(places),
    ).fetchall()
    return {TablePlace(schema, table): tuple(columns) for schema, table, columns in rows}
