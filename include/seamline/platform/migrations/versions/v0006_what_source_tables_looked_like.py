"""What a stream has last found a source's table to be, beside its shape."""

from alembic import op

revision = "v0006"
down_revision = "v0005"


def upgrade() -> None:
    op.execute(
        """
        create table seamline.seen_origin (
            sync text not null,
            table_name text not null,
            planned text not null,
            seen text not null,
            seen_at timestamptz not null default clock_timestamp(),
            primary key (sync, table_name)
        )
        """
    )
