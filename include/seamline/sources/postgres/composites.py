"""Composite types, which are kept as their text: `(1,"Main Street",)`.

Their fields are read as the server prints them, so only types are taken in whose text no setting of a session changes
but those that every session of ours has. ALTER TYPE gives stored values other fields, without the log.
"""

from collections.abc import Collection

# As a member of WITH RECURSIVE: the types inside of type `t`, which a row of `{of}` names by its `oid`.
TYPES_INSIDE = """CROSS JOIN LATERAL (SELECT t.typbasetype AS oid WHERE t.typtype = 'd'
   UNION ALL SELECT t.typelem WHERE t.typcategory = 'A' AND t.typelem <> 0
   UNION ALL SELECT f.atttypid FROM pg_attribute f
    WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0 AND NOT f.attisdropped) x"""
# As a column of a question about type `t`: the plain types inside of a composite one, and how many fields it has.
FIELDS = f"""CASE WHEN t.typtype = 'c' THEN (WITH RECURSIVE inside AS (SELECT t.oid UNION SELECT x.oid
  FROM inside i JOIN pg_type t ON t.oid = i.oid {TYPES_INSIDE})
 SELECT coalesce(array_agg(DISTINCT t.typname::text), '{{}}') FROM inside i JOIN pg_type t ON t.oid = i.oid
 WHERE t.typtype NOT IN ('c', 'd', 'e') AND t.typcategory <> 'A') ELSE '{{}}' END,
 (SELECT count(*) FROM pg_attribute f WHERE t.typtype = 'c' AND f.attrelid = t.typrelid AND f.attnum > 0
  AND NOT f.attisdropped)"""

_PRINTED_ALIKE = frozenset(
    {"int2", "int4", "int8", "numeric", "float4", "float8", "bool", "text", "varchar", "bpchar", "uuid", "bit"}
    | {"json", "jsonb", "date", "time", "timestamp", "inet", "cidr", "macaddr", "macaddr8"}
    | {"int4range", "int8range", "numrange", "daterange", "tsrange"}
)


def composite_fault(fields: Collection[str]) -> str:
    """Why a composite type with fields of these types cannot be kept as its text; "" where it can."""
    others = sorted(set(fields) - _PRINTED_ALIKE)
    return f"a composite type with a field of {others[0]}: its text follows the session's settings" if others else ""
