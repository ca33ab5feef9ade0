"""Files that people attach to breaks: each version beside its entry in the log of acts, and never changed."""

from alembic import op

revision = "v0015"
down_revision = "v0014"

TABLE = """
create table seamline.attachment (
    -- Of its entry in the log of acts, which says who attached it, when, to what, and its SHA-256.
    number bigint primary key,
    break_id text not null,
    name text not null check (name <> ''),
    -- From 1 for each name of a break.
    version int not null check (version > 0),
    content bytea not null,
    unique (break_id, name, version)
);
-- Most files are compressed already.
alter table seamline.attachment alter column content set storage external;
"""
# Nothing stands here that the log does not say, so what the log refuses is refused here: a file of a signed take too.
RULES = """
create function seamline.add_attachment() returns trigger language plpgsql as $$
begin
    if not exists (
        select from seamline.audit_entry where number = new.number and kind = 'attached'
            and document::jsonb @> jsonb_build_object('break_ids', jsonb_build_array(new.break_id), 'file', new.name,
                'version', new.version, 'sha256', encode(sha256(new.content), 'hex'))
    ) then
        raise exception 'entry % is not about version % of this file', new.number, new.version using errcode = 'SLM01';
    end if;
    return new;
end $$;
create trigger add_attachment before insert on seamline.attachment
    for each row execute function seamline.add_attachment();
create function seamline.keep_attachments() returns trigger language plpgsql as $$
begin
    raise exception 'files of breaks are kept: % is refused', tg_op using errcode = 'SLM01';
end $$;
create trigger keep_attachments before update or delete or truncate on seamline.attachment
    for each statement execute function seamline.keep_attachments();
"""
KINDS = """
alter table seamline.audit_entry drop constraint audit_entry_kind_check;
alter table seamline.audit_entry add constraint audit_entry_kind_check check (kind in (
    'log opened', 'verdict adopted', 'decision adopted', 'cut adopted',
    'compared', 'signature kept',
    'asked', 'approved', 'rejected', 'expired', 'question withdrawn',
    'published', 'cut expired',
    'stream paused', 'stream resumed', 'stream restarted',
    'table parked', 'table returned',
    'assigned', 'handed back', 'commented', 'attached', 'explained', 'tolerated', 'break closed', 'break opened again',
    'tolerance asked', 'tolerance approved', 'tolerance ended',
    'repair planned', 'repair approved', 'repair applied',
    'signed', 'reopened', 'exported', 'revealed'
));
drop trigger hold_signed_takes on seamline.audit_entry;
create trigger hold_signed_takes before insert on seamline.audit_entry for each row
    when (new.scope = 'cut' and new.run_id <> '' and new.kind in (
        'assigned', 'handed back', 'commented', 'attached', 'explained', 'tolerated', 'break closed',
        'break opened again', 'repair planned', 'repair approved', 'repair applied'
    ))
    execute function seamline.hold_signed_takes();
"""


def upgrade() -> None:
    for statements in (TABLE, RULES, KINDS):
        op.execute(statements)
