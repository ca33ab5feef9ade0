"""Streams that were cut off because they were too far behind: they need nothing of the log until they are wanted
again."""

from alembic import op

revision = "v0024"
down_revision = "v0021"


def upgrade() -> None:
    op.execute("alter table seamline.stream add column is_cut_off boolean not null default false")
