"""How a sync went over its business dates, as pictures: rows, rows that differ, and control totals."""

from collections.abc import Sequence
from dataclasses import dataclass

from seamline.domain.cut_state import CutState
from seamline.domain.measure import is_plain_sum
from seamline.domain.phrase import Phrase, joined, phrase
from seamline.platform.totals import Series
from seamline_airflow.page import reading
from seamline_airflow.page.charts import Picture, bars


@dataclass(frozen=True, slots=True)
class Drawn:
    """One line of pictures. `newest`: the value of the newest date."""

    what: str
    newest: str
    picture: Picture


def drawn(sync: str, destination: str, states: Sequence[CutState]) -> tuple[Drawn, ...]:
    """Of one destination. `states`: the newest take of each date, the newest first; nothing where fewer than two dates
    were compared, which no picture shows better than their numbers."""
    compared = [one for one in reversed(states) if one.destination == destination and one.found]
    if len(compared) < 2:
        return ()
    first, last = compared[0].business_date, compared[-1].business_date
    span = phrase(
        "of %(destination)s for each of %(dates)s business dates from %(first)s to %(last)s",
        destination=destination,
        dates=len(compared),
        first=first,
        last=last,
    )
    counted = [_rows(one) for one in compared]
    broken = [sum(table.breaks_total for table in one.found.tables) if one.found else 0 for one in compared]
    found = [
        Drawn(
            phrase("rows compared"),
            f"{counted[-1]:,}",
            bars(counted, phrase("rows compared %(span)s: last %(number)s", span=span, number=f"{counted[-1]:,}")),
        ),
        Drawn(
            phrase("breaks"),
            f"{broken[-1]:,}",
            bars(
                broken,
                phrase("breaks %(span)s: most %(number)s", span=span, number=f"{max(broken):,}"),
                marked=[count > 0 for count in broken],
            ),
        ),
    ]
    with reading.platform(sync) as store:
        series = store.totals_over(sync, [(one.run_id, one.destination) for one in compared])
    for one in series:
        newest = one.sums[-1]
        last = "–" if newest is None else f"{newest:,f}"
        title = phrase("%(what)s %(span)s: last %(number)s", what=name_of(one), span=span, number=last)
        found.append(Drawn(name_of(one), last, bars(one.sums, title)))
    return tuple(found)


def name_of(one: Series) -> Phrase:
    """What a line of a control total is called. It has a group, as a currency, only where its rows are grouped."""
    group = [" / ".join(one.group)] if one.group else []
    if not one.column:
        return phrase("rows of %(name)s", name=joined(", ", [one.table, *group]))
    if is_plain_sum(one.column):
        return phrase("sum of %(name)s", name=joined(", ", [f"{one.table}.{one.column}", *group]))
    return joined(", ", [f"{one.table}: {one.column}", *group])


def _rows(state: CutState) -> int:
    return sum(table.destination_rows or 0 for table in state.found.tables) if state.found else 0
