"""What a plan carries of the declaration's own keys."""

from seamline.plan.model import DestinationPlan

ROWS_MAX = "rows_max"
# A script of so many stays below Redis' own `busy-reply-threshold` of five seconds.
ROWS_MAX_DEFAULT = 250_000


def rows_max_of(destination: DestinationPlan) -> int:
    return int(dict(destination.options)[ROWS_MAX])
