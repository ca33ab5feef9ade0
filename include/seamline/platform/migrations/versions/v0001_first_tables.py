"""The first tables: captures, holds, runs, cuts, reconciliations, streams, hosts and alarms."""

from alembic import op

revision = "v0001"
down_revision = None

CAPTURES = """
create table seamline.capture_tables (
    source text not null,
    generation integer not null check (generation > 0),
    tables text[] not null,
    set_at timestamptz not null default now(),
    primary key (source, generation)
);
comment on table seamline.capture_tables is 'Which tables a capture carries; the highest generation is in force';

create table seamline.pruning_hold (
    hold_id text primary key,
    topic text not null,
    holder text not null,
    next_offset bigint not null,
    expires_at timestamptz not null,
    unique (topic, holder)
);
comment on table seamline.pruning_hold is 'Leases: records of the topic from next_offset on are still needed';
"""

RUNS = """
create table seamline.sync_state (
    sync text primary key,
    state text not null check (state in ('onboarding', 'enabled', 'parked')),
    changed_at timestamptz not null default now()
);

create table seamline.run (
    run_id text primary key,
    sync text not null,
    kind text not null check (kind in ('onboard', 'nightly', 'reconcile')),
    business_date date,
    plan_json text not null,
    state text not null default 'running' check (state in ('running', 'succeeded', 'failed')),
    result jsonb not null default '{}',
    started_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz
);
create index run_by_sync on seamline.run (sync, kind, started_at desc);

create table seamline.receipt (
    run_id text not null references seamline.run on delete cascade,
    table_name text not null,
    attempt integer not null,
    staged_as text not null,
    rows bigint not null,
    digest jsonb,
    position jsonb,
    written_at timestamptz not null default clock_timestamp(),
    primary key (run_id, table_name, attempt, staged_as)
);

create table seamline.cut (
    sync text not null,
    destination text not null,
    business_date date not null,
    version integer not null,
    run_id text not null,
    position jsonb not null,
    as_of timestamptz not null,
    tables text[] not null,
    verdict text not null,
    partial boolean not null,
    saved_at timestamptz not null default clock_timestamp(),
    primary key (sync, destination, business_date, version)
);
"""

RECONCILIATIONS = """
create table seamline.reconciliation (
    reconciliation_id bigint generated always as identity primary key,
    run_id text not null,
    sync text not null,
    destination text not null,
    scope text not null check (scope in ('live', 'cut')),
    business_date date,
    position jsonb,
    position_time timestamptz,
    mode text not null,
    verdict text not null check (verdict in ('MATCH', 'BREAK', 'INCONCLUSIVE', 'NOT_RUN')),
    started_at timestamptz not null,
    ended_at timestamptz not null,
    evidence jsonb not null,
    unique (run_id, destination, scope)
);
create index reconciliation_by_sync on seamline.reconciliation (sync, started_at desc);

create table seamline.table_verdict (
    reconciliation_id bigint not null references seamline.reconciliation on delete cascade,
    ordinal integer not null,
    table_name text not null,
    verdict text not null check (verdict in ('MATCH', 'BREAK', 'INCONCLUSIVE', 'NOT_RUN')),
    reason text not null,
    position text not null,
    source_rows bigint,
    destination_rows bigint,
    breaks_total bigint not null,
    primary key (reconciliation_id, ordinal),
    unique (reconciliation_id, table_name)
);

create table seamline.control_total (
    reconciliation_id bigint not null,
    table_ordinal integer not null,
    ordinal integer not null,
    table_name text not null,
    column_name text not null,
    group_values text[] not null,
    source_rows bigint not null,
    destination_rows bigint not null,
    source_sum numeric,
    destination_sum numeric,
    primary key (reconciliation_id, table_ordinal, ordinal),
    foreign key (reconciliation_id, table_ordinal) references seamline.table_verdict on delete cascade
);

create table seamline.break (
    reconciliation_id bigint not null,
    table_ordinal integer not null,
    ordinal integer not null,
    table_name text not null,
    type text not null,
    key text not null,
    source_values json,
    destination_values json,
    primary key (reconciliation_id, table_ordinal, ordinal),
    foreign key (reconciliation_id, table_ordinal) references seamline.table_verdict on delete cascade
);
"""

STREAMS = """
create table seamline.stream (
    sync text not null,
    destination text not null,
    pool text not null,
    plan_json text not null,
    is_wanted boolean not null,
    is_paused boolean not null default false,
    want_number bigint not null default 1,
    wanted_at timestamptz not null default clock_timestamp(),
    primary key (sync, destination)
);
comment on column seamline.stream.want_number is 'Grows with each want: a newer want ends the rest of a fenced stream';

create table seamline.stream_hold (
    hold_id text primary key,
    sync text not null,
    destination text not null,
    until timestamptz not null,
    apply_to jsonb,
    asked_at timestamptz not null default clock_timestamp()
);
create index stream_hold_by_stream on seamline.stream_hold (sync, destination, until);

create table seamline.stream_report (
    sync text not null,
    destination text not null,
    state text not null,
    document jsonb not null,
    reported_at timestamptz not null,
    primary key (sync, destination)
);

create table seamline.stream_event (
    event_id bigint generated always as identity primary key,
    sync text not null,
    destination text not null,
    state text not null,
    error text not null,
    host text not null,
    at timestamptz not null default clock_timestamp()
);
create index stream_event_by_stream on seamline.stream_event (sync, destination, at);
comment on table seamline.stream_event is 'A row for each change of state, so that a day can be told afterwards';

create table seamline.host_lease (
    pool text primary key,
    holder text not null,
    is_stopping boolean not null default false,
    taken_at timestamptz not null,
    renewed_at timestamptz not null,
    expires_at timestamptz not null
);

create table seamline.alarm (
    alarm_id bigint generated always as identity primary key,
    kind text not null,
    subject text not null,
    message text not null,
    raised_at timestamptz not null default clock_timestamp(),
    ended_at timestamptz
);
create unique index alarm_open on seamline.alarm (kind, subject) where ended_at is null;
"""

# A trigger and not the application sends the notice, so that an operator's own SQL is heard at once as well.
NOTICES = """
create function seamline.tell_streams() returns trigger language plpgsql as $$
begin
    perform pg_notify('seamline_control', '');
    return null;
end $$;
create trigger tell_streams after insert or update or delete on seamline.stream
    for each statement execute function seamline.tell_streams();
create trigger tell_streams after insert or update or delete on seamline.stream_hold
    for each statement execute function seamline.tell_streams();
create function seamline.tell_of_a_host() returns trigger language plpgsql as $$
begin
    if old.holder is distinct from new.holder or old.is_stopping is distinct from new.is_stopping then
        perform pg_notify('seamline_control', '');
    end if;
    return null;
end $$;
create trigger tell_streams after update on seamline.host_lease
    for each row execute function seamline.tell_of_a_host();
"""


def upgrade() -> None:
    for statements in (CAPTURES, RUNS, RECONCILIATIONS, STREAMS, NOTICES):
        op.execute(statements)
