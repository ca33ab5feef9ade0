"""The origin of a table: what PostgreSQL's catalogue keeps beside its schema. It shows alterations that were undone.

A table whose column was retyped there and back, or in whose place another one stands, looks as it did. The log holds
neither that nor which values it has changed; and what was written while a table had another name, or was not published,
it does not hold at all (ADR 24).
"""

import hashlib
from collections.abc import Collection
from typing import Any

import msgspec

from seamline.domain.catalogue import Table, fingerprint
from seamline.domain.table_places import TablePlace
from seamline.sources.postgres.client import Session
from seamline.sources.postgres.composites import TYPES_INSIDE
from seamline.sources.postgres.partitions import Partition, read_partitions, unlogged_moves
from seamline.sources.postgres.places import WANTED, asked_for

# The base types of domains are asked for, as an enum may stand behind one. The index of the primary key, named as
# identity, is the default.
_ORIGINS = f"""
WITH RECURSIVE here AS (SELECT c.*, a.attname, a.attnum, a.atttypid, a.atthasmissing, a.xmin AS version
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
  WHERE (c.relnamespace, c.relname) IN ({WANTED})),
base AS (SELECT atttypid AS declared, atttypid AS oid FROM here
  UNION SELECT b.declared, x.oid FROM base b JOIN pg_type t ON t.oid = b.oid {TYPES_INSIDE})
SELECT (SELECT n.nspname FROM pg_namespace n WHERE n.oid = h.relnamespace), h.relname,
  h.oid::bigint, h.relfilenode::bigint,
  CASE WHEN h.relreplident = 'i' AND coalesce(k.indisreplident, false) THEN 'd' ELSE h.relreplident::text END,
  (SELECT t.xmin::text FROM pg_type t WHERE t.oid = h.reltype), coalesce(p.oid || ' ' || p.xmin::text, ''),
  coalesce((SELECT r.oid || ' ' || r.xmin::text FROM pg_publication_rel r
   WHERE r.prpubid = p.oid AND r.prrelid = h.oid), ''),
  h.relispartition AND coalesce(p.pubviaroot, false),
  h.attname, h.attnum::int, h.version::text, l.labels, h.atthasmissing,
  coalesce((SELECT d.oid::bigint FROM pg_attrdef d WHERE d.adrelid = h.oid AND d.adnum = h.attnum), 0), l.versions,
  (SELECT jsonb_object_agg(f.attrelid || ' ' || f.attnum, f.xmin::text) FROM base b
   JOIN pg_type t ON t.oid = b.oid AND t.typtype = 'c' JOIN pg_attribute f ON f.attrelid = t.typrelid AND f.attnum > 0
   WHERE b.declared = h.atttypid)
FROM here h LEFT JOIN pg_index k ON k.indrelid = h.oid AND k.indisprimary
LEFT JOIN pg_publication p ON p.pubname = %(publication)s
CROSS JOIN LATERAL (SELECT coalesce(jsonb_object_agg(e.oid::text, e.enumlabel), '{{}}') AS labels,
  coalesce(jsonb_object_agg(e.oid::text, e.xmin::text), '{{}}') AS versions
  FROM base b JOIN pg_enum e ON e.enumtypid = b.oid WHERE b.declared = h.atttypid) l"""


class ColumnOrigin(msgspec.Struct, frozen=True):
    """`version` is the xmin of its row in pg_attribute; `labels` those of an enum, by the oid of each. `has_missing`:
    rows from before it was added take its value from the catalogue, until the table is rewritten. `default` is the oid
    of its default, 0 where it has none; `label_versions` has the xmin of each label's row in pg_enum. None in an origin
    of before this was kept. `fields`: the xmin of each field's row, also of those that were dropped; UNSET where no
    composite type is in it."""

    number: int
    version: str
    labels: dict[str, str] = {}
    has_missing: bool = False
    default: int | None = None
    label_versions: dict[str, str] | None = None
    fields: dict[str, str] | msgspec.UnsetType = msgspec.UNSET


class Origin(msgspec.Struct, frozen=True):
    """`file` is another one after each rewrite of the table; `identity` is relreplident. `row_type` is the xmin of its
    row in pg_type, which has the table's name, schema and owner. `publication` and `published` are oid and xmin of the
    publication and of the table's place in it, "" where there is none. `may_be_published_as_root`: it is a partition,
    and its publication gives changes of partitions as those of a partitioned table above them, once that is published.
    None in an origin of before this was kept. `partitions` by their oids; UNSET where the table is not partitioned."""

    table: int
    file: int
    identity: str
    columns: dict[str, ColumnOrigin]
    row_type: str | None = None
    publication: str | None = None
    published: str | None = None
    # Under the name that plans and the platform database keep it by.
    may_be_published_as_root: bool | None = msgspec.field(default=None, name="may_be_told_as_root")
    partitions: dict[str, Partition] | msgspec.UnsetType = msgspec.UNSET


def read_origins(session: Session, publication: str, places: Collection[TablePlace]) -> dict[TablePlace, str]:
    """`Table.origin` of the table of each of these places."""
    found: dict[TablePlace, Origin] = {}
    partitions = read_partitions(session, places)
    asked = {**asked_for(places), "publication": publication}
    for schema, name, oid, file, identity, row_type, *rest in session.execute(_ORIGINS, asked).fetchall():
        publication_of, published, may_be_published_as_root, column, *of_column = rest
        place = TablePlace(schema, name)
        more = (publication_of, published, may_be_published_as_root, partitions.get(place, msgspec.UNSET))
        origin = found.setdefault(place, Origin(oid, file, identity, {}, row_type, *more))
        values: list[Any] = [msgspec.UNSET if value is None else value for value in of_column]
        origin.columns[str(column)] = ColumnOrigin(*values)
    return {place: msgspec.json.encode(origin).decode() for place, origin in found.items()}


def table_fingerprint(table: Table) -> str:
    """Another one after whatever was done to the table, also where it was undone; "" where no origin was kept."""
    if not table.origin:
        return ""
    origin = msgspec.json.decode(table.origin, type=Origin)
    if origin.partitions:
        # Where a partition was empty when it came, that counts only once.
        known = {oid: msgspec.structs.replace(one, is_whole=True) for oid, one in origin.partitions.items()}
        origin = msgspec.structs.replace(origin, partitions=known)
    kept = msgspec.json.encode(origin, order="deterministic")
    return hashlib.sha256(fingerprint(table).encode() + kept).hexdigest()[:16]


def is_partitioned(table: Table) -> bool:
    return bool(table.origin) and msgspec.json.decode(table.origin, type=Origin).partitions is not msgspec.UNSET


def is_watched(planned: Table) -> bool:
    """Whether all that `undone_alterations` looks for was kept with the plan: an earlier version kept less."""
    if not planned.origin:
        return False
    origin = msgspec.json.decode(planned.origin, type=Origin)
    if None in (origin.row_type, origin.publication, origin.published):
        return False
    return not any(
        column.label_versions is None or (column.has_missing and column.default is None)
        for column in origin.columns.values()
    )


def undone_alterations(planned: Table, found: Table) -> list[str]:
    """What was done to a table since it was planned that its schema does not show, in words. [] for a plan of before
    this was kept."""
    if not planned.origin or not found.origin:
        return []
    was, now = (msgspec.json.decode(table.origin, type=Origin) for table in (planned, found))
    if was.table != now.table:
        return [f"{planned.name} is another table now: it was replaced"]
    pairs = {
        f"{planned.name}.{name}": (one, now.columns[name]) for name, one in was.columns.items() if name in now.columns
    }
    texts = [f"{name} was dropped and added again" for name, (old, new) in pairs.items() if old.number != new.number]
    if not texts and was.file != now.file:
        texts = [
            f"{name} was altered and its table rewritten: its values may be others"
            for name, (old, new) in pairs.items()
            if old.version != new.version and not _is_version_of_rewrite(old, new)
        ]
    texts += [
        f"a composite type in {name} was altered: stored values changed without the log"
        for name, (old, new) in pairs.items()
        if old.fields != new.fields
    ]
    texts += [text for name, (old, new) in pairs.items() for text in _labels(name, old, new)]
    texts += _possibly_unpublished(planned.name, was, now)
    texts += unlogged_moves(planned.name, was.partitions or {}, now.partitions or {})
    if was.identity != now.identity and now.identity not in "df":
        texts.append(f"the replica identity of {planned.name} is not its primary key any more")
    return texts


def _labels(name: str, old: ColumnOrigin, new: ColumnOrigin) -> list[str]:
    versions = new.label_versions or {}
    texts = []
    for oid, label in old.labels.items():
        if new.labels.get(oid) != label:
            texts.append(f"label {label!r} of {name} is now {new.labels.get(oid)!r}")
        elif old.label_versions is not None and old.label_versions.get(oid) != versions.get(oid):
            texts.append(f"label {label!r} of {name} was renamed for a while: rows written then may hold another one")
    return texts


def _possibly_unpublished(table: str, was: Origin, now: Origin) -> list[str]:
    """That the log may lack changes. pgoutput and the connector go by name, and what they pass over leaves no sign."""
    texts = []
    if was.row_type not in (None, now.row_type):
        texts.append(
            f"{table} was renamed or moved to another schema and back (or was given another owner, which looks alike):"
            " changes that were made under the other name may be missing"
        )
    if was.publication not in (None, now.publication):
        texts.append(
            f"the publication of {table} was altered (what it publishes, its name or its owner) or made again: changes"
            " may be missing"
        )
    elif was.published not in (None, now.published):
        texts.append(f"{table} was not, or not as a whole, in its publication: changes may be missing")
    if was.may_be_published_as_root is False and now.may_be_published_as_root:
        texts.append(f"{table} became a partition: the log may hold its changes as those of the partitioned table")
    return texts


def _is_version_of_rewrite(old: ColumnOrigin, new: ColumnOrigin) -> bool:
    """Whoever rewrites a table writes the value into its rows and takes it out of the catalogue, VACUUM FULL too
    (RelationClearMissing of PostgreSQL's heap.c). Only ALTER … TYPE makes the default again with it, under another oid;
    where there is no default, nothing distinguishes the two."""
    is_default_kept = old.default is None or 0 != old.default == new.default
    return old.has_missing and not new.has_missing and is_default_kept
