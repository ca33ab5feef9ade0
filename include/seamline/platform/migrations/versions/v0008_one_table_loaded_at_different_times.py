"""What a stream has last found a table to be, for each of the table's loads: destinations may have loaded it apart."""

from alembic import op

revision = "v0008"
down_revision = "v0007"


def upgrade() -> None:
    # What was planned may be longer than an index takes.
    op.execute(
        """
        alter table seamline.seen_origin drop constraint seen_origin_pkey;
        create unique index seen_origin_of_load on seamline.seen_origin (sync, table_name, md5(planned));
        """
    )
