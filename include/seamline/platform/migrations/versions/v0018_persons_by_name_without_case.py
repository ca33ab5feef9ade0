"""One rule says whether two names are one person's, wherever a second person is wanted: case does not count, as it does
not where Airflow lets people in by a directory. Before, only repairs were held by it."""

from alembic import op

revision = "v0018"
down_revision = "v0017"

SAME_PERSON = """
create function seamline.same_person(name text, other text) returns boolean language sql immutable
    return lower(seamline.person(name)) = lower(seamline.person(other));
"""
# It fires behind `append_audit_entry`, by the order of their names: under the lock that this one has taken.
DECISIONS = """
create function seamline.require_second_person() returns trigger language plpgsql as $$
begin
    if exists (
        select from seamline.audit_entry made where made.run_id = new.run_id and seamline.same_person(made.who, new.who)
            and made.kind in ('compared', 'asked', 'explained', 'tolerated', 'repair planned')
    ) or exists (
        select from seamline.run where run.run_id = new.run_id and seamline.same_person(result->>'asked_by', new.who)
    ) then
        raise exception '% asked for run % or worked on it, so another person decides', new.who, new.run_id
            using errcode = 'SLM01';
    end if;
    return new;
end $$;
create trigger require_second_person before insert on seamline.audit_entry for each row
    when (new.kind in ('approved', 'signed', 'repair approved'))
    execute function seamline.require_second_person();
"""
SIGN_OFFS = """
create or replace function seamline.add_sign_off() returns trigger language plpgsql as $$
declare
    newest record;
begin
    new.who := seamline.person(new.who);
    select number, act, who, verdict_hash into newest from seamline.sign_off
        where run_id = new.run_id and destination = new.destination order by number desc limit 1;
    if new.act = 'reopened' and newest.act is distinct from 'signed' then
        raise exception 'run % is not signed, so nobody re-opens it', new.run_id using errcode = 'SLM01';
    elsif new.act = 'reopened' and seamline.same_person(newest.who, new.who) then
        raise exception '% signed run %, so another person re-opens it', new.who, new.run_id using errcode = 'SLM01';
    elsif new.act = 'signed' and newest.act = 'reopened' and seamline.same_person(newest.who, new.who) then
        raise exception '% re-opened run %, so another person signs', new.who, new.run_id using errcode = 'SLM01';
    elsif new.act = 'signed' and newest.act = 'signed' and newest.verdict_hash = new.verdict_hash then
        raise exception 'run % is signed by %', new.run_id, newest.who using errcode = 'SLM01';
    end if;
    new.number := coalesce(newest.number, 0) + 1;
    new.at := clock_timestamp();
    return new;
end $$;
"""
# What was approved before stays, and may be ended.
TOLERANCES = """
alter table seamline.tolerance drop constraint approved_by_another_person;
alter table seamline.tolerance add constraint approved_by_another_person
    check (not seamline.same_person(approved_by, made_by) or ended_by is not null) not valid;
alter table seamline.tolerance drop constraint approved_by_the_declared_person;
alter table seamline.tolerance add constraint approved_by_the_declared_person
    check (approver = '' or approved_by is null or seamline.same_person(approved_by, approver));
"""


def upgrade() -> None:
    for statements in (SAME_PERSON, DECISIONS, SIGN_OFFS, TOLERANCES):
        op.execute(statements)
