"""Breaks that stand in cuts of earlier dates are found without those that are closed."""

from alembic import op

revision = "v0025"
down_revision = "v0024"

STANDING = """
create index break_work_standing on seamline.break_work (sync, destination, cut_date)
    where state <> 'closed' and in_cut <> '';
"""


def upgrade() -> None:
    op.execute(STANDING)
