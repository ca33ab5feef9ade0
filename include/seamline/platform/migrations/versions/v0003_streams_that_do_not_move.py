"""When a stream last came further: a stream may be alive and heard, and stand still all the same."""

from alembic import op

revision = "v0003"
down_revision = "v0002"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.stream_report
            add column moved_to bigint not null default 0,
            add column moved_at timestamptz not null default clock_timestamp()
        """
    )
