"""How late each stream was, minute by minute, for two days: the worst that it reported in each.

A minute without a row is one of which nobody reported a lag: the host was away, or the stream had ended.
"""

from alembic import op

revision = "v0014"
down_revision = "v0013"


def upgrade() -> None:
    op.execute(
        """
        create table seamline.stream_lag (
            sync text not null,
            destination text not null,
            minute timestamptz not null,
            lag_s double precision not null,
            primary key (sync, destination, minute)
        );
        create function seamline.keep_lag() returns trigger language plpgsql as $$
        declare
            this_minute timestamptz := date_trunc('minute', new.reported_at);
            lag double precision := (new.document->>'lag_s')::double precision;
        begin
            if lag is null or coalesce((new.document->>'epoch')::bigint, 0) = 0
                or new.state not in ('streaming', 'catching_up', 'held', 'paused', 'waiting') then
                return null;
            end if;
            update seamline.stream_lag set lag_s = greatest(lag_s, lag)
            where (sync, destination, minute) = (new.sync, new.destination, this_minute);
            if not found then
                insert into seamline.stream_lag values (new.sync, new.destination, this_minute, lag)
                on conflict (sync, destination, minute) do update
                    set lag_s = greatest(stream_lag.lag_s, excluded.lag_s);
                delete from seamline.stream_lag where sync = new.sync and destination = new.destination
                    and minute < new.reported_at - interval '2 days';
            end if;
            return null;
        end $$;
        create trigger keep_lag after insert or update on seamline.stream_report
            for each row execute function seamline.keep_lag();
        """
    )
