"""A break that stands in the next take, or on the next date, takes its explanation along. So whoever gave it worked on
that take too, until another person has signed one with the break since."""

from alembic import op

revision = "v0027"
down_revision = "v0026"

# Of each break its newest explanation counts. A take lists a bounded number of breaks per table.
EXPLAINED = """
create function seamline.has_explained(take text, place text, name text) returns boolean language sql stable as $$
    select exists (
        select from seamline.reconciliation found join seamline.break one using (reconciliation_id)
            join seamline.break_work work using (break_id)
            cross join lateral (
                select entry.number, entry.who
                from seamline.break_act act join seamline.audit_entry entry using (number)
                where act.break_id = one.break_id and entry.kind = 'explained' order by entry.number desc limit 1
            ) made
        where found.run_id = take and found.scope = 'cut' and place in ('', found.destination)
            and work.state = 'explained' and seamline.same_person(made.who, name)
            and not exists (
                select from seamline.break seen
                    join seamline.reconciliation taken on taken.reconciliation_id = seen.reconciliation_id
                    join seamline.audit_entry signed on signed.run_id = taken.run_id
                        and signed.destination = taken.destination
                where seen.break_id = one.break_id and taken.scope = 'cut' and signed.kind = 'signed'
                    and signed.number > made.number and not seamline.same_person(signed.who, name)
            )
    )
$$;
"""
DECISIONS = """
create or replace function seamline.require_second_person() returns trigger language plpgsql as $$
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
    if new.kind <> 'repair approved' and seamline.has_explained(new.run_id, new.destination, new.who) then
        raise exception '% has explained breaks of run %, so another person decides', new.who, new.run_id
            using errcode = 'SLM01';
    end if;
    return new;
end $$;
"""


def upgrade() -> None:
    for statements in (EXPLAINED, DECISIONS):
        op.execute(statements)
