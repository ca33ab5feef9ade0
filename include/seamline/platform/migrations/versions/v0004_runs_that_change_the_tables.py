"""Runs that let tables enter and leave a stream that goes on."""

from alembic import op

revision = "v0004"
down_revision = "v0003"


def upgrade() -> None:
    op.execute(
        """
        alter table seamline.run
            drop constraint run_kind_check,
            add constraint run_kind_check check (kind in ('onboard', 'nightly', 'reconcile', 'tables'))
        """
    )
