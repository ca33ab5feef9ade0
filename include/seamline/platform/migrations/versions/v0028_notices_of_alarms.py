"""Notices of alarms about streams, sources and logs."""

from alembic import op

revision = "v0028"
down_revision = "v0027"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.notice drop constraint notice_event_check;
        alter table seamline.notice add constraint notice_event_check
            check (event in ('breaks', 'signature', 'late', 'late_postings', 'escalated', 'proven', 'alarms'));
        """
    )
