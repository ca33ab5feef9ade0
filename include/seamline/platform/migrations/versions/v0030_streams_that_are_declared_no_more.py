"""Streams that are declared no more: since when, and the act by which a person gives their place up."""

from alembic import op

revision = "v0030"
down_revision = "v0029"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.stream add column undeclared_since timestamptz;
        comment on column seamline.stream.undeclared_since is
            'First look that did not find it declared. Not wanted beside it: it ended for that';
        alter table seamline.audit_entry drop constraint audit_entry_kind_check;
        alter table seamline.audit_entry add constraint audit_entry_kind_check check (kind in (
            'log opened', 'verdict adopted', 'decision adopted', 'cut adopted', 'compared', 'checked', 'signature kept',
            'asked', 'approved', 'rejected', 'expired', 'question withdrawn', 'published', 'cut expired',
            'stream paused', 'stream resumed', 'stream restarted', 'stream forgotten', 'table parked', 'table returned',
            'assigned', 'handed back', 'commented', 'attached', 'explained', 'tolerated', 'break closed',
            'break opened again', 'tolerance asked', 'tolerance approved', 'tolerance ended', 'repair planned',
            'repair approved', 'repair applied', 'signed', 'reopened', 'restatement asked', 'exported', 'revealed'
        ));
        """
    )
