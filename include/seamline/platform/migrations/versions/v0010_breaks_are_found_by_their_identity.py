"""A break is found by its identity over dates, and in the order of its key or its kind: pages ask for a few of many."""

import hashlib
import json

from alembic import op

revision = "v0010"
down_revision = "v0009"

_ROWS_AT_ONCE = 5_000
_NEXT = """
select b.reconciliation_id, b.table_ordinal, b.ordinal, r.sync, r.destination, b.table_name, b.type, b.key
from seamline.break b join seamline.reconciliation r using (reconciliation_id)
where (b.reconciliation_id, b.table_ordinal, b.ordinal) > (%s, %s, %s)
order by b.reconciliation_id, b.table_ordinal, b.ordinal limit %s
"""
_FILL = """
update seamline.break b set break_id = found.break_id
from unnest(%s::bigint[], %s::int[], %s::int[], %s::text[]) as found (number, table_ordinal, ordinal, break_id)
where (b.reconciliation_id, b.table_ordinal, b.ordinal) = (found.number, found.table_ordinal, found.ordinal)
"""


def _identity(about: list[str]) -> str:
    """As `seamline.domain.break_id` makes it; a migration stays what it was when that changes."""
    return hashlib.sha256(json.dumps(about, separators=(",", ":")).encode("ascii")).hexdigest()[:16]


def upgrade() -> None:
    op.execute("alter table seamline.break add column break_id text not null default ''")
    connection = op.get_bind()
    last = (-1, -1, -1)
    while rows := connection.exec_driver_sql(_NEXT, (*last, _ROWS_AT_ONCE)).fetchall():
        places = [list(column) for column in zip(*(tuple(row)[:3] for row in rows), strict=True)]
        connection.exec_driver_sql(_FILL, (*places, [_identity(list(row[3:])) for row in rows]))
        last = tuple(rows[-1][:3])
    # A key may be longer than an index takes: its beginning orders, and places decide between equal ones.
    op.execute(
        """
        alter table seamline.break alter column break_id drop default;
        create index break_by_id on seamline.break (break_id, reconciliation_id);
        create index break_by_key
            on seamline.break (reconciliation_id, (left(key, 100) collate "C"), table_ordinal, ordinal);
        create index break_by_type on seamline.break (reconciliation_id, type, table_ordinal, ordinal);
        """
    )
