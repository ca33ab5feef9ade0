"""Tolerances that stand in the declaration: the text that was approved, by its hash, and who it names as approver."""

from alembic import op

revision = "v0017"
down_revision = "v0016"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.tolerance
            -- The hash of the declared text; '' of one that was asked for on the page.
            add column declared text not null default '',
            -- Who is declared to approve it.
            add column approver text not null default '',
            add constraint declared_names_its_approver check ((declared = '') = (approver = '')),
            add constraint approved_by_the_declared_person
                check (approver = '' or approved_by is null or seamline.person(approved_by) = approver);
        -- A text is approved once; one that has ended is approved again as another row.
        create unique index tolerance_declared on seamline.tolerance (sync, declared)
            where declared <> '' and ended_by is null;
        create or replace function seamline.keep_tolerance() returns trigger language plpgsql as $$
        begin
            if (new.sync, new.destination, new.table_name, new.column_name, new.amount, new.reason, new.made_by,
                    new.made_at, new.expires_at, new.declared, new.approver) is distinct from
                (old.sync, old.destination, old.table_name, old.column_name, old.amount, old.reason, old.made_by,
                    old.made_at, old.expires_at, old.declared, old.approver)
                or old.approved_by is not null and (new.approved_by, new.approved_at) is distinct from
                    (old.approved_by, old.approved_at)
                or old.ended_by is not null and (new.ended_by, new.ended_at) is distinct from
                    (old.ended_by, old.ended_at)
            then
                raise exception 'a tolerance is not changed: end it and ask for another one' using errcode = 'SLM01';
            end if;
            return new;
        end $$;
        """
    )
