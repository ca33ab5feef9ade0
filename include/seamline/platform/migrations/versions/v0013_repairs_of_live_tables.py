"""Repairs of live tables: what was planned, by whom it was approved, and what became of each row."""

from alembic import op

revision = "v0013"
down_revision = "v0012"

RUNS = """
alter table seamline.run
    drop constraint run_kind_check,
    add constraint run_kind_check check (kind in ('onboard', 'nightly', 'reconcile', 'tables', 'repair'))
"""
# They stay when their run has expired. Values are data of the bank: they stand here and never in the log of acts.
TABLES = """
create table seamline.repair (
    run_id text primary key,
    sync text not null,
    destination text not null,
    compared text not null,
    position text not null,
    refused jsonb not null,
    hash text not null,
    state text not null default 'planned' check (state in ('planned', 'approved', 'applying', 'applied')),
    planned_by text not null check (planned_by <> ''),
    planned_at timestamptz not null default clock_timestamp(),
    approved_by text not null default '',
    approved_at timestamptz,
    cause text not null default '',
    reason text not null default '',
    applied_at timestamptz,
    applied_position text not null default '',
    verdict text not null default '' check (verdict in ('', 'MATCH', 'BREAK', 'INCONCLUSIVE', 'NOT_RUN')),
    check (state = 'planned' or (approved_by <> '' and approved_at is not null and cause <> '' and reason <> ''))
);
create index repair_by_sync on seamline.repair (sync, planned_at desc);

create table seamline.repair_row (
    run_id text not null references seamline.repair on delete cascade,
    ordinal integer not null,
    table_name text not null,
    key text not null,
    named text not null,
    action text check (action in ('upsert', 'delete')),
    source_values json,
    destination_values json,
    state text not null,
    why text not null,
    primary key (run_id, ordinal)
);
"""
# The database holds it, whoever writes: another person approves, and what was approved stays what it was.
RULES = """
create function seamline.keep_repair() returns trigger language plpgsql as $$
begin
    if (new.run_id, new.sync, new.destination, new.compared, new.position, new.refused, new.hash, new.planned_by)
        is distinct from
       (old.run_id, old.sync, old.destination, old.compared, old.position, old.refused, old.hash, old.planned_by)
    then
        raise exception 'what repair % plans is not changed: plan another one', old.run_id using errcode = 'SLM02';
    end if;
    if old.state <> 'planned' and (new.approved_by, new.approved_at, new.cause, new.reason, new.state = 'planned')
        is distinct from (old.approved_by, old.approved_at, old.cause, old.reason, false)
    then
        raise exception 'repair % is approved already', old.run_id using errcode = 'SLM02';
    end if;
    -- As the log of acts compares persons.
    if new.approved_by <> '' and lower(seamline.person(new.approved_by)) = lower(seamline.person(new.planned_by))
    then
        raise exception '% has planned repair %, so another person approves it', new.approved_by, new.run_id
            using errcode = 'SLM02';
    end if;
    return new;
end $$;
create trigger keep_repair before update on seamline.repair
    for each row execute function seamline.keep_repair();

create function seamline.keep_repair_row() returns trigger language plpgsql as $$
begin
    if (new.run_id, new.ordinal, new.table_name, new.key, new.named, new.action, new.source_values::text,
        new.destination_values::text) is distinct from
       (old.run_id, old.ordinal, old.table_name, old.key, old.named, old.action, old.source_values::text,
        old.destination_values::text)
    then
        raise exception 'what repair % plans is not changed: plan another one', old.run_id using errcode = 'SLM02';
    end if;
    return new;
end $$;
create trigger keep_repair_row before update on seamline.repair_row
    for each row execute function seamline.keep_repair_row();

create function seamline.refuse_repair_row() returns trigger language plpgsql as $$
begin
    if exists (select from seamline.repair where repair.run_id = new.run_id and state <> 'planned') then
        raise exception 'repair % is approved already', new.run_id using errcode = 'SLM02';
    end if;
    return new;
end $$;
create trigger refuse_repair_row before insert on seamline.repair_row
    for each row execute function seamline.refuse_repair_row();
"""


def upgrade() -> None:
    for statements in (RUNS, TABLES, RULES):
        op.execute(statements)
