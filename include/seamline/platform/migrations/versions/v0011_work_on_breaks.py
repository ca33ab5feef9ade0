"""What people do about breaks: their state, owner and reason, the acts on each, and tolerances."""

from alembic import op

revision = "v0011"
down_revision = "v0010"

BREAKS = """
create table seamline.break_work (
    break_id text primary key,
    sync text not null,
    destination text not null,
    table_name text not null,
    type text not null,
    state text not null default 'open' check (state in ('open', 'explained', 'tolerated', 'closed')),
    since timestamptz not null,
    owner text not null default '',
    reason text not null default '',
    -- Of the values for which it was explained: other values need another explanation.
    explained_values text not null default '',
    tolerance_id bigint,
    -- What it differs by in the column of its tolerance; without a sign.
    absorbed numeric,
    first_at timestamptz not null,
    first_date date,
    -- The run that has found it last, by scope; '' where the newest comparison that looked has it no more. `_at`: when
    -- that comparison ended; `cut_date`: the business date of the newest cut with it.
    in_cut text not null default '',
    cut_at timestamptz,
    cut_date date,
    in_live text not null default '',
    live_at timestamptz
);
create index break_work_by_place on seamline.break_work (sync, destination, table_name);
create index break_work_by_owner on seamline.break_work (owner, sync) where owner <> '' and state <> 'closed';
create index break_work_by_age on seamline.break_work (sync, first_at, break_id) where state <> 'closed';

create table seamline.break_act (
    break_id text not null,
    number bigint not null,
    primary key (break_id, number)
);
"""
# Conservative: what any comparison has found last is open, until the next one that looks has it no more.
FILL = """
insert into seamline.break_work
    (break_id, sync, destination, table_name, type, since, first_at, first_date, in_cut, cut_at, cut_date, in_live,
    live_at)
select b.break_id, r.sync, r.destination, b.table_name, b.type, min(r.ended_at), min(r.ended_at),
    min(r.business_date) filter (where scope = 'cut'),
    coalesce((array_agg(r.run_id order by r.ended_at desc) filter (where scope = 'cut'))[1], ''),
    max(r.ended_at) filter (where scope = 'cut'),
    (array_agg(r.business_date order by r.ended_at desc) filter (where scope = 'cut'))[1],
    coalesce((array_agg(r.run_id order by r.ended_at desc) filter (where scope = 'live'))[1], ''),
    max(r.ended_at) filter (where scope = 'live')
from seamline.break b join seamline.reconciliation r using (reconciliation_id)
group by b.break_id, r.sync, r.destination, b.table_name, b.type
"""
# A name in the form in which the log of acts keeps it: neither blanks nor a colon make one person into two.
TOLERANCES = """
create function seamline.person(name text) returns text language sql immutable
    return btrim(regexp_replace(replace(name, ':', ' '), '\\s+', ' ', 'g'));
create table seamline.tolerance (
    tolerance_id bigint generated always as identity primary key,
    sync text not null,
    destination text not null,
    table_name text not null,
    column_name text not null,
    amount numeric not null check (amount > 0 and amount < 'infinity'),
    reason text not null,
    made_by text not null check (seamline.person(made_by) <> ''),
    made_at timestamptz not null default clock_timestamp(),
    -- The first moment at which it holds no more.
    expires_at timestamptz not null,
    approved_by text,
    approved_at timestamptz,
    ended_by text,
    ended_at timestamptz,
    constraint approved_by_another_person check (seamline.person(approved_by) <> seamline.person(made_by)),
    constraint approval_is_whole check ((approved_by is null) = (approved_at is null) and approved_by <> ''),
    constraint end_is_whole check ((ended_by is null) = (ended_at is null))
);
create index tolerance_by_sync on seamline.tolerance (sync, destination, table_name);
alter table seamline.break_work add foreign key (tolerance_id) references seamline.tolerance;
create index break_work_by_tolerance on seamline.break_work (tolerance_id) where tolerance_id is not null;
-- What was asked for is what is approved, by a person who is named once.
create function seamline.keep_tolerance() returns trigger language plpgsql as $$
begin
    if (new.sync, new.destination, new.table_name, new.column_name, new.amount, new.reason, new.made_by, new.made_at,
            new.expires_at) is distinct from
        (old.sync, old.destination, old.table_name, old.column_name, old.amount, old.reason, old.made_by, old.made_at,
            old.expires_at)
        or old.approved_by is not null and (new.approved_by, new.approved_at) is distinct from
            (old.approved_by, old.approved_at)
        or old.ended_by is not null and (new.ended_by, new.ended_at) is distinct from (old.ended_by, old.ended_at)
    then
        raise exception 'a tolerance is not changed: end it and ask for another one' using errcode = 'SLM01';
    end if;
    return new;
end $$;
create trigger keep_tolerance before update on seamline.tolerance
    for each row execute function seamline.keep_tolerance();
"""
NOW = """
create view seamline.break_now as
select w.break_id, w.sync, w.destination, w.table_name, w.type, w.owner, w.reason, w.tolerance_id, w.absorbed,
    w.first_at, w.first_date, w.in_cut, w.in_live,
    case when t.expires_at <= statement_timestamp() then 'open' else w.state end as state,
    case when t.expires_at <= statement_timestamp() then t.expires_at else w.since end as since
from seamline.break_work w
left join seamline.tolerance t on t.tolerance_id = w.tolerance_id and w.state = 'tolerated';
comment on view seamline.break_now is 'A tolerance that has expired tolerates nothing, also before the next comparison';
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
    'assigned', 'handed back', 'commented', 'explained', 'tolerated', 'break closed', 'break opened again',
    'tolerance asked', 'tolerance approved', 'tolerance ended',
    'repair planned', 'repair approved', 'repair applied',
    'signed', 'reopened', 'exported', 'revealed'
));
"""


def upgrade() -> None:
    for statements in (BREAKS, FILL, TOLERANCES, NOW, KINDS):
        op.execute(statements)
