"""How a sync went over its business dates, as pictures: rows, rows that differ, and control totals."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from seamline.domain.cut_state import CutState
from seamline_airflow.page import reading
from seamline_airflow.page.charts import bars


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line of pictures. `newest`: the value of the newest date."""

    what: str
    newest: str
    picture: Markup


def drawn(sync: str, destination: str, states: Sequence[CutState]) -> tuple[Drawn, ...]:
    """Of one destination. `states`: the newest take of each date, the newest first; nothing where fewer than two dates
    were compared, which no picture shows better than their numbers."""
    compared = [one for one in reversed(states) if one.destination == destination and one.found]
    if len(compared) < 2:
        return ()
    first, last = compared[0].business_date, compared[-1].business_date
    span = f"of {destination} for each of {len(compared)} business dates from {first} to {last}"
    counted = [_rows(one) for one in compared]
    broken = [sum(table.breaks_total for table in one.found.tables) if one.found else 0 for one in compared]
    found = [
        Drawn("rows compared", f"{counted[-1]:,}", bars(counted, f"rows compared {span}: last {counted[-1]:,}")),
        Drawn(
            "breaks",
            f"{broken[-1]:,}",
            bars(broken, f"breaks {span}: most {max(broken):,}", marked=[count > 0 for count in broken]),
        ),
    ]
    with reading.platform(sync) as store:
        series = store.totals_over(sync, [(one.run_id, one.destination) for one in compared])
    for one in series:
        name = f"{one.table}.{one.column}, {' / '.join(one.group) or 'all'}"
        newest = one.sums[-1]
        last_sum = "–" if newest is None else f"{newest:,f}"
        found.append(Drawn(f"sum of {name}", last_sum, bars(one.sums, f"sum of {name} {span}: last {last_sum}")))
    return tuple(found)


def _rows(state: CutState) -> int:
    return sum(table.destination_rows or 0 for table in state.found.tables) if state.found else 0
