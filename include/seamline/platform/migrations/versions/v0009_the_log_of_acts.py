"""The log of acts: a chain of hashes that only grows. What it is, and how it is verified: docs/reference/audit.md."""

from alembic import op

revision = "v0009"
down_revision = "v0008"

TABLE = """
create table seamline.audit_entry (
    number bigint primary key,
    at timestamptz not null,
    kind text not null check (kind in (
        'log opened', 'verdict adopted', 'decision adopted', 'cut adopted',
        'compared', 'signature kept',
        'asked', 'approved', 'rejected', 'expired', 'question withdrawn',
        'published', 'cut expired',
        'stream paused', 'stream resumed', 'stream restarted',
        'table parked', 'table returned',
        'assigned', 'commented', 'explained', 'tolerated', 'repair planned', 'repair approved', 'repair applied',
        'signed', 'reopened', 'exported', 'revealed'
    )),
    who text not null check (who <> ''),
    origin text not null,
    sync text not null,
    destination text not null,
    business_date date,
    run_id text not null,
    scope text not null,
    document text not null check (document is json object),
    -- Two entries never follow the same one: the chain cannot fork.
    previous text not null unique,
    content_hash text not null,
    hash text not null
);
create index audit_entry_by_run on seamline.audit_entry (run_id, destination, number);
create index audit_entry_by_date on seamline.audit_entry (sync, business_date, number);
"""
# The database and no program gives an entry its number, its moment and its hashes, one writer after the other. The lock
# lasts until the transaction ends: so an act is the last statement of its transaction. "seamlog" in ASCII.
APPEND = """
create function seamline.append_audit_entry() returns trigger language plpgsql as $$
declare
    newest record;
begin
    perform pg_advisory_xact_lock(x'7365616d6c6f67'::bigint);
    select number, hash into newest from seamline.audit_entry order by number desc limit 1;
    -- As a signature is kept with a cut: neither blanks nor a colon make one person into two.
    new.who := btrim(regexp_replace(replace(new.who, ':', ' '), '\\s+', ' ', 'g'));
    if new.kind in ('approved', 'signed', 'repair approved') and (
        exists (
            select from seamline.audit_entry made where made.run_id = new.run_id and made.who = new.who
                and made.kind in ('compared', 'asked', 'explained', 'tolerated', 'repair planned')
        ) or exists (
            select from seamline.run where run.run_id = new.run_id
                and btrim(regexp_replace(replace(result->>'asked_by', ':', ' '), '\\s+', ' ', 'g')) = new.who
        )
    ) then
        raise exception '% asked for run % or worked on it, so another person decides', new.who, new.run_id
            using errcode = 'SLM01';
    end if;
    new.number := coalesce(newest.number, 0) + 1;
    new.at := clock_timestamp();
    new.previous := coalesce(newest.hash, repeat('0', 64));
    new.content_hash := encode(sha256(convert_to(
        '{"at":"' || to_char(new.at at time zone 'UTC', 'YYYY-MM-DD"T"HH24\\:MI\\:SS.US"Z"')
        || '","business_date":' || coalesce('"' || to_char(new.business_date, 'YYYY-MM-DD') || '"', 'null')
        || ',"destination":' || to_json(new.destination)
        || ',"document":' || new.document
        || ',"kind":' || to_json(new.kind)
        || ',"origin":' || to_json(new.origin)
        || ',"run_id":' || to_json(new.run_id)
        || ',"scope":' || to_json(new.scope)
        || ',"sync":' || to_json(new.sync)
        || ',"who":' || to_json(new.who) || '}', 'UTF8')), 'hex');
    new.hash := encode(sha256(convert_to(
        '{"content":"' || new.content_hash || '","number":' || new.number || ',"previous":"' || new.previous || '"}',
        'UTF8')), 'hex');
    return new;
end $$;
create trigger append_audit_entry before insert on seamline.audit_entry
    for each row execute function seamline.append_audit_entry();
"""
ONLY_GROWS = """
create function seamline.keep_audit_entries() returns trigger language plpgsql as $$
begin
    raise exception 'the log of acts only grows: % is refused', tg_op using errcode = 'SLM01';
end $$;
create trigger keep_audit_entries before update or delete or truncate on seamline.audit_entry
    for each statement execute function seamline.keep_audit_entries();
"""


def upgrade() -> None:
    for statements in (TABLE, APPEND, ONLY_GROWS):
        op.execute(statements)
