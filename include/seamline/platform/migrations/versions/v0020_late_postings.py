"""Late postings that streams have applied against signed dates, how far their logs were looked at, and one more kind
of act: that a signed date is taken again."""

from alembic import op

revision = "v0020"
down_revision = "v0019"

# A row of `late_watch` is made when a night begins, so that its place lies before the position of the night's cut.
TABLES = """
create table seamline.late_watch (
    run_id text not null references seamline.run (run_id) on delete cascade,
    destination text not null,
    sync text not null,
    topic_id text not null,
    next_offset bigint not null,
    position jsonb not null,
    looked_at timestamptz,
    unknown text not null default '',
    primary key (run_id, destination)
);
create table seamline.late_posting (
    posting_id bigint generated always as identity primary key,
    run_id text not null,
    destination text not null,
    table_name text not null,
    key text not null,
    changes bigint not null check (changes > 0),
    transactions int not null check (transactions > 0),
    position text not null,
    committed_at timestamptz,
    found_at timestamptz not null default clock_timestamp(),
    foreign key (run_id, destination) references seamline.late_watch (run_id, destination) on delete cascade
);
create unique index late_posting_by_position
    on seamline.late_posting (run_id, destination, table_name, md5(position));
"""
KINDS = """
alter table seamline.audit_entry drop constraint audit_entry_kind_check;
alter table seamline.audit_entry add constraint audit_entry_kind_check check (kind in (
    'log opened', 'verdict adopted', 'decision adopted', 'cut adopted', 'compared', 'signature kept', 'asked',
    'approved', 'rejected', 'expired', 'question withdrawn', 'published', 'cut expired', 'stream paused',
    'stream resumed', 'stream restarted', 'table parked', 'table returned', 'assigned', 'handed back', 'commented',
    'attached', 'explained', 'tolerated', 'break closed', 'break opened again', 'tolerance asked',
    'tolerance approved', 'tolerance ended', 'repair planned', 'repair approved', 'repair applied', 'signed',
    'reopened', 'restatement asked', 'exported', 'revealed'
));
"""
NOTICES = """
alter table seamline.notice drop constraint notice_event_check;
alter table seamline.notice add constraint notice_event_check
    check (event in ('breaks', 'signature', 'late', 'late_postings', 'escalated'));
"""


def upgrade() -> None:
    for statements in (TABLES, KINDS, NOTICES):
        op.execute(statements)
