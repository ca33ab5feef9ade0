"""What Great Expectations said becomes part of a verdict: one more kind of act, which a signature is bound to and a
signed take refuses. Verdicts of before stay as they are, without it. And breaks have the currency of an amount that
differs beside it."""

from alembic import op

revision = "v0026"
down_revision = "v0025"

KINDS = """
alter table seamline.audit_entry drop constraint audit_entry_kind_check;
alter table seamline.audit_entry add constraint audit_entry_kind_check check (kind in (
    'log opened', 'verdict adopted', 'decision adopted', 'cut adopted', 'compared', 'checked', 'signature kept',
    'asked', 'approved', 'rejected', 'expired', 'question withdrawn', 'published', 'cut expired', 'stream paused',
    'stream resumed', 'stream restarted', 'table parked', 'table returned', 'assigned', 'handed back', 'commented',
    'attached', 'explained', 'tolerated', 'break closed', 'break opened again', 'tolerance asked',
    'tolerance approved', 'tolerance ended', 'repair planned', 'repair approved', 'repair applied', 'signed',
    'reopened', 'restatement asked', 'exported', 'revealed'
));
"""
LOCK = """
create or replace function seamline.signer_of(take text, place text) returns text language sql stable as $$
    select who from (
        select act, who, verdict_hash from seamline.sign_off
        where run_id = take and destination = place order by number desc limit 1
    ) newest where act = 'signed' and verdict_hash = (
        select document::json->>'hash' from seamline.audit_entry
        where run_id = take and destination = place and scope = 'cut'
            and kind in ('verdict adopted', 'compared', 'checked', 'signature kept')
        order by number desc limit 1
    )
$$;
drop trigger hold_signed_takes on seamline.audit_entry;
create trigger hold_signed_takes before insert on seamline.audit_entry for each row
    when (new.scope = 'cut' and new.run_id <> '' and new.kind in (
        'checked', 'assigned', 'handed back', 'commented', 'attached', 'explained', 'tolerated', 'break closed',
        'break opened again', 'repair planned', 'repair approved', 'repair applied'
    ))
    execute function seamline.hold_signed_takes();
"""


BESIDE = """
alter table seamline.break add column beside json;
"""


def upgrade() -> None:
    for statements in (KINDS, LOCK, BESIDE):
        op.execute(statements)
