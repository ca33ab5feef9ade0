"""The tables of a PostgreSQL database, before any of them is declared."""

from collections.abc import Sequence
from contextlib import closing

from seamline.domain.server_found import ListedTable
from seamline.plan.model import SourcePlan
from seamline.sources.postgres.client import open_session, role, translated

_LISTED = (
    "SELECT n.nspname::text, c.relname::text, CASE c.relkind WHEN 'p' THEN"
    " (SELECT nullif(sum(greatest(p.reltuples, 0)), 0) FROM pg_partition_tree(c.oid) t"
    " JOIN pg_class p ON p.oid = t.relid WHERE t.isleaf)::bigint ELSE nullif(c.reltuples, -1)::bigint END,"
    " CASE c.relkind WHEN 'p' THEN"
    " (SELECT sum(pg_total_relation_size(t.relid)) FROM pg_partition_tree(c.oid) t WHERE t.isleaf)::bigint"
    " ELSE pg_total_relation_size(c.oid) END FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p'"
    " AND n.nspname <> 'information_schema' AND NOT starts_with(n.nspname, 'pg_') ORDER BY 1, 2"
)


def list_tables(source: SourcePlan) -> Sequence[ListedTable]:
    """Of all schemas; a partitioned table is one."""
    reader = role(source, source.reader)
    with closing(open_session(reader)) as session, translated(reader):
        rows = session.execute(_LISTED).fetchall()
    return [ListedTable(*row) for row in rows]
