"""A stream that ended for good stays so when the host is started again: the want that it ended under is kept."""

from alembic import op

revision = "v0002"
down_revision = "v0001"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.stream
            add column final_want bigint not null default -1,
            add column final_error text not null default ''
        """
    )
