"""Who paused a stream, since when and why. Of a stream that was paused before, nobody knows."""

from alembic import op

revision = "v0005"
down_revision = "v0004"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.stream
            add column paused_by text not null default '',
            add column paused_at timestamptz,
            add column pause_reason text not null default ''
        """
    )
