"""Reconciliations are found by what is asked for: those of a run, the newest of a date."""

from alembic import op

revision = "v0011"
down_revision = "v0004"


def upgrade() -> None:
    op.execute(
        r"""
        create index reconciliation_by_date on seamline.reconciliation
            (sync, destination, (case when scope = 'cut' then business_date end), started_at desc);
        -- The last part of a run's id, without the number of a repetition.
        create index reconciliation_by_run_name
            on seamline.reconciliation (sync, regexp_replace(run_id, '^.*/|~[0-9]+$', '', 'g'))
        """
    )
