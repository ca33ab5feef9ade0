"""What tables held when they last matched, and what the log says of a break.

`digest_key` has one random key for each sync: digests that are kept are made under it.
"""

from alembic import op

revision = "v0019"
down_revision = "v0018"


def upgrade() -> None:
    op.execute(
        """
        create table seamline.digest_key (
            sync text primary key,
            run_key text not null check (run_key <> '')
        );
        create table seamline.baseline (
            sync text not null,
            destination text not null,
            table_name text not null,
            made_of text not null,
            topic text not null,
            topic_id text not null,
            next_offset bigint not null,
            position jsonb not null,
            epoch bigint not null,
            committed_ms bigint not null,
            content bytea not null,
            is_broken boolean not null default false,
            primary key (sync, destination, table_name)
        );
        alter table seamline.break add column witness json;
        """
    )
