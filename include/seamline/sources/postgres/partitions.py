"""Partitions of a partitioned table, which is kept as one table: the log reports their changes as those of the table.

That is so with `publish_via_partition_root`. What moves rows in or out without a change of a row is not in the log:
a table that is attached with its rows, a partition that is detached or dropped, TRUNCATE of a partition.
"""

from collections.abc import Collection, Mapping

import msgspec

from seamline.domain.table_places import TablePlace
from seamline.sources.postgres.client import Session
from seamline.sources.postgres.places import WANTED, asked_for

# A partition was made as one if its columns still are those that were made with it: ATTACH writes all of them again,
# also in the transaction that made the table. Rows of catalogues that somebody tried to delete say nothing (xmax).
# One that was attached and never held a page has brought no rows. `inhdetachpending`: already none for every query.
_PARTITIONS = f"""
WITH RECURSIVE tree AS (
  SELECT n.nspname AS root_schema, c.relname AS root, c.oid, NULL::xid AS attached
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE (c.relnamespace, c.relname) IN ({WANTED}) AND c.relkind = 'p'
  UNION ALL SELECT t.root_schema, t.root, i.inhrelid, i.xmin
  FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid AND NOT i.inhdetachpending)
SELECT t.root_schema, t.root, t.oid::bigint, t.oid::regclass::text, t.attached::text, c.relfilenode::bigint,
  CASE WHEN c.relkind = 'p' OR c.relreplident = 'i' AND coalesce(k.indisreplident, false) THEN 'd'
    ELSE c.relreplident::text END,
  c.relkind IN ('r', 'p') AND c.relpersistence = 'p',
  y.xmin = t.attached AND y.xmax = 0 AND EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = t.oid AND a.attnum > 0
      AND a.xmin = t.attached AND a.xmax = 0 AND a.cmin = y.cmin)
    OR c.relfilenode = t.oid AND coalesce(pg_relation_size(t.oid) = 0, false)
FROM tree t JOIN pg_class c ON c.oid = t.oid JOIN pg_type y ON y.oid = c.reltype
LEFT JOIN pg_index k ON k.indrelid = c.oid AND k.indisprimary"""

# As SQL over pg_class `c`: the snapshot sees the partitions that there are now, and their rows.
SEEN_AS_NOW = """(WITH RECURSIVE tree AS (
  SELECT i.inhrelid AS oid FROM pg_inherits i WHERE i.inhparent = c.oid AND NOT i.inhdetachpending
  UNION ALL SELECT i.inhrelid FROM tree t JOIN pg_inherits i ON i.inhparent = t.oid AND NOT i.inhdetachpending)
SELECT coalesce(bool_and(p.relkind = 'p' OR p.relfilenode = pg_relation_filenode(p.oid)), true)
  AND array_agg(t.oid ORDER BY t.oid) IS NOT DISTINCT FROM
    (SELECT array_agg(n.relid::oid ORDER BY n.relid::oid) FROM pg_partition_tree(c.oid) n WHERE n.relid <> c.oid)
FROM tree t JOIN pg_class p ON p.oid = t.oid)"""


class Partition(msgspec.Struct, frozen=True):
    """`attached` is the xmin of its row in pg_inherits, `file` its relfilenode, `identity` relreplident (the index of
    the primary key counts as `d`). `is_logged`: no foreign or unlogged table. `is_whole`: when it came, it brought no
    rows that the log lacks."""

    name: str
    attached: str
    file: int
    identity: str = "d"
    is_logged: bool = True
    is_whole: bool = True


def read_partitions(session: Session, places: Collection[TablePlace]) -> dict[TablePlace, dict[str, Partition]]:
    """Partitioned table → its partitions of all levels, by oid. Tables that are not partitioned are not in it."""
    found: dict[TablePlace, dict[str, Partition]] = {}
    for schema, root, oid, name, attached, *rest in session.execute(_PARTITIONS, asked_for(places)).fetchall():
        partitions = found.setdefault(TablePlace(schema, root), {})
        if attached is not None:
            partitions[str(oid)] = Partition(str(name), str(attached), *rest)
    return found


def partition_fault(partition: Partition) -> str:
    """Why its changes would be missing or come without their key; "" where they are complete."""
    if not partition.is_logged:
        return f"partition {partition.name} is unlogged or a foreign table: its rows are not in the log"
    if partition.identity not in "df":
        return f"the replica identity of partition {partition.name} is not its primary key"
    return ""


def unlogged_moves(table: str, was: Mapping[str, Partition], now: Mapping[str, Partition]) -> list[str]:
    """What was done to the partitions of a table that moved rows in or out without the log, in words."""
    texts = []
    for oid, old in was.items():
        new = now.get(oid)
        if new is None:
            texts.append(f"partition {old.name} of {table} was detached or dropped: its rows went without the log")
        elif new.attached != old.attached:
            texts.append(f"partition {old.name} of {table} was detached and attached again: changes may be missing")
        elif new.file != old.file:
            texts.append(
                f"partition {old.name} of {table} was emptied or rewritten: TRUNCATE of a partition is not in the log,"
                " and VACUUM FULL looks alike"
            )
    texts += [
        f"partition {new.name} of {table} was attached with rows that the log lacks"
        for oid, new in now.items()
        if oid not in was and not new.is_whole
    ]
    return texts + [f"{table}: {fault}" for one in now.values() if (fault := partition_fault(one))]
