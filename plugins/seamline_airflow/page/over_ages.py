"""The breaks of a comparison by age, as a picture."""

from collections.abc import Sequence

from seamline.domain.break_age import Aged, band_in_words
from seamline.domain.phrase import joined, phrase
from seamline_airflow.page.charts import Picture, bars


def drawn_by_age(aged: Sequence[Aged], bounds: Sequence[int]) -> Picture:
    """A bar for each band, the youngest first, also for one without a break; where breaks are open it stands out."""
    by_band = {one.band: one for one in aged}
    bands = [by_band.get(number, Aged(number, 0, 0, 0)) for number in range(len(bounds) + 1)]
    said = [joined(" ", [band_in_words(one.band, bounds), f"{one.breaks:,}"]) for one in bands if one.breaks]
    title = phrase("breaks by age: %(bands)s", bands=joined("; ", said))
    return bars([one.breaks for one in bands], title, marked=[one.open > 0 for one in bands])
