"""Control totals over business dates, asked of the platform database as they are drawn."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from seamline.domain.runs import Scope
from seamline.platform.database import Session

# As many as a person looks at. A total may be grouped by account, and then there are millions.
SERIES_MAX = 12

# Which totals: the first of the newest comparison, whose order is that of the declaration.
_SERIES = """
with places as (
    select place, reconciliation_id
    from unnest(%(runs)s::text[], %(destinations)s::text[]) with ordinality as wanted (run_id, destination, place)
    join reconciliation using (run_id, destination)
    where sync = %(sync)s and scope = %(scope)s
), chosen as (
    select table_name, column_name, group_values, row_number() over (order by table_ordinal, ordinal) as series
    from control_total
    where reconciliation_id = (select reconciliation_id from places order by place desc limit 1)
    order by table_ordinal, ordinal limit %(limit)s
)
select series, table_name, column_name, group_values, place,
    case when column_name = '' then destination_rows else destination_sum end
from chosen join control_total using (table_name, column_name, group_values) join places using (reconciliation_id)
order by series, place
"""


@dataclass(frozen=True, slots=True)
class Series:
    """What one control total was in the destination, over the comparisons that were asked for, in their order; None
    where it was not summed. One without a column counts rows."""

    table: str
    column: str
    group: tuple[str, ...]
    sums: tuple[Decimal | None, ...]


def over(session: Session, sync: str, cuts: Sequence[tuple[str, str]]) -> tuple[Series, ...]:
    """Of these comparisons of cuts, each as (run, destination), the newest last; at most `SERIES_MAX` totals."""
    found: dict[int, tuple[str, str, tuple[str, ...], list[Decimal | None]]] = {}
    asked = {
        "sync": sync,
        "runs": [run for run, _ in cuts],
        "destinations": [destination for _, destination in cuts],
        "scope": Scope.CUT.value,
        "limit": SERIES_MAX,
    }
    for number, table, column, group, place, total in session.execute(_SERIES, asked):
        series = found.setdefault(number, (table, column, tuple(group), [None] * len(cuts)))
        series[3][place - 1] = total
    return tuple(Series(table, column, group, tuple(sums)) for table, column, group, sums in found.values())
