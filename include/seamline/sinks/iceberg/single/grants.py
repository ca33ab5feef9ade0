"""What both logins need in a catalogue that commits single tables, in words: its owner grants it there."""

from seamline.plan.model import DestinationPlan
from seamline.sinks.iceberg.options import GLUE

_GLUE = (
    "glue:CreateDatabase, glue:GetDatabase, glue:GetTable, glue:GetTables, glue:CreateTable, glue:UpdateTable and"
    " glue:DeleteTable"
)


def rights(destination: DestinationPlan) -> str:
    """As a comment of a script."""
    is_glue = dict(destination.options).get("catalog_type") == GLUE
    what = _GLUE if is_glue else "to make the database, and to make, alter and drop its tables"
    return f"-- In the catalogue, of database {destination.namespace}: {what}.\n"
