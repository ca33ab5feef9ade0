"""Spark drivers of tasks, known on every machine."""

from alembic import op

revision = "v0007"
down_revision = "v0006"


def upgrade() -> None:
    op.execute(
        """
        create table seamline.driver_run (
            name text not null,
            attempt integer not null,
            state text not null,
            holder text not null,
            log text not null default '',
            claimed_at timestamptz not null default clock_timestamp(),
            started_at timestamptz,
            heartbeat_at timestamptz not null default clock_timestamp(),
            end_ordered_by text not null default '',
            end_ordered_at timestamptz,
            ended_at timestamptz,
            exit_code integer,
            last_lines text[] not null default '{}',
            primary key (name, attempt)
        );
        create trigger tell_driver after update on seamline.driver_run for each row
            when (old.end_ordered_by <> new.end_ordered_by or old.state <> new.state and new.state = 'lost')
            execute function seamline.tell_streams();
        """
    )
