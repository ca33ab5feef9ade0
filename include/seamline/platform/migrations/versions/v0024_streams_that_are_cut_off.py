"""Streams that were cut off because they were too far behind: they need nothing of the log until they are wanted
again. And notices of dates that are proven."""

from alembic import op

revision = "v0024"
down_revision = "v0021"


def upgrade() -> None:
    op.execute("alter table seamline.stream add column is_cut_off boolean not null default false")
    op.execute(
        """
        alter table seamline.notice drop constraint notice_event_check;
        alter table seamline.notice add constraint notice_event_check
            check (event in ('breaks', 'signature', 'late', 'late_postings', 'escalated', 'proven'));
        """
    )
