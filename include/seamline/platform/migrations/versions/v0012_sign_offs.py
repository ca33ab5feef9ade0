"""Signatures under published cuts. The database holds who may not sign or re-open, and that a signed take is locked."""

from alembic import op

revision = "v0012"
down_revision = "v0011"

TABLE = """
create table seamline.sign_off (
    run_id text not null,
    destination text not null,
    -- From 1 in each take.
    number int not null,
    sync text not null,
    business_date date not null,
    version int not null,
    act text not null check (act in ('signed', 'reopened')),
    who text not null check (who <> ''),
    reason text not null,
    -- What was signed, in a word: the verdict of the published cut.
    verdict text not null,
    verdict_hash text not null,
    at timestamptz not null,
    primary key (run_id, destination, number),
    constraint reopened_for_a_reason check (act = 'signed' or reason <> '')
);
create index sign_off_by_date on seamline.sign_off (sync, business_date);
"""
# Who asked for a run cannot sign: that its entry in the log of acts holds, which is of the same transaction.
SECOND_PERSON = """
create function seamline.add_sign_off() returns trigger language plpgsql as $$
declare
    newest record;
begin
    new.who := seamline.person(new.who);
    select number, act, who, verdict_hash into newest from seamline.sign_off
        where run_id = new.run_id and destination = new.destination order by number desc limit 1;
    if new.act = 'reopened' and newest.act is distinct from 'signed' then
        raise exception 'run % is not signed, so nobody re-opens it', new.run_id using errcode = 'SLM01';
    elsif new.act = 'reopened' and newest.who = new.who then
        raise exception '% signed run %, so another person re-opens it', new.who, new.run_id using errcode = 'SLM01';
    elsif new.act = 'signed' and newest.act = 'reopened' and newest.who = new.who then
        raise exception '% re-opened run %, so another person signs', new.who, new.run_id using errcode = 'SLM01';
    elsif new.act = 'signed' and newest.act = 'signed' and newest.verdict_hash = new.verdict_hash then
        raise exception 'run % is signed by %', new.run_id, newest.who using errcode = 'SLM01';
    end if;
    new.number := coalesce(newest.number, 0) + 1;
    new.at := clock_timestamp();
    return new;
end $$;
create trigger add_sign_off before insert on seamline.sign_off
    for each row execute function seamline.add_sign_off();
create function seamline.keep_sign_offs() returns trigger language plpgsql as $$
begin
    raise exception 'signatures are kept: % is refused', tg_op using errcode = 'SLM01';
end $$;
create trigger keep_sign_offs before update or delete or truncate on seamline.sign_off
    for each statement execute function seamline.keep_sign_offs();
"""
# A signature under another verdict than the take has now is void, and locks nothing.
LOCK = """
create function seamline.signer_of(take text, place text) returns text language sql stable as $$
    select who from (
        select act, who, verdict_hash from seamline.sign_off
        where run_id = take and destination = place order by number desc limit 1
    ) newest where act = 'signed' and verdict_hash = (
        select document::json->>'hash' from seamline.audit_entry
        where run_id = take and destination = place and scope = 'cut'
            and kind in ('verdict adopted', 'compared', 'signature kept')
        order by number desc limit 1
    )
$$;
create function seamline.hold_signed_takes() returns trigger language plpgsql as $$
declare
    signer text := seamline.signer_of(new.run_id, new.destination);
begin
    if signer is not null then
        raise exception 'run % is signed by %: re-open it first', new.run_id, signer using errcode = 'SLM01';
    end if;
    return new;
end $$;
create trigger hold_signed_takes before insert on seamline.audit_entry for each row
    when (new.scope = 'cut' and new.run_id <> '' and new.kind in (
        'assigned', 'handed back', 'commented', 'explained', 'tolerated', 'break closed', 'break opened again',
        'repair planned', 'repair approved', 'repair applied'
    ))
    execute function seamline.hold_signed_takes();
"""


def upgrade() -> None:
    for statements in (TABLE, SECOND_PERSON, LOCK):
        op.execute(statements)
