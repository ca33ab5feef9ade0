"""Notices by mail: each event once for each recipient, with how often it was tried and what the server said last."""

from alembic import op

revision = "v0016"
down_revision = "v0015"


def upgrade() -> None:
    # `what` and `link` hold declared names, dates and counts: what is sent later is what was seen then.
    op.execute(
        """
        create table seamline.notice (
            notice_id bigint generated always as identity primary key,
            sync text not null,
            event text not null check (event in ('breaks', 'signature', 'late', 'escalated')),
            about text not null,
            recipient text not null,
            what text not null,
            link text not null,
            found_at timestamptz not null default clock_timestamp(),
            attempts int not null default 0,
            tried_at timestamptz,
            failure text not null default '',
            sent_at timestamptz,
            unique (sync, event, about, recipient)
        );
        create index notice_unsent on seamline.notice (found_at) where sent_at is null;
        """
    )
