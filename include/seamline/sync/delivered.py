"""A delivery of a business date is taken once; what comes after it for that date is a correction."""

from collections.abc import Sequence

from seamline.domain.errors import Refused
from seamline.domain.position import OfDelivery, Position
from seamline.domain.runs import Cut
from seamline.plan.model import Run


def require_new(run: Run, position: Position, published: Sequence[Cut]) -> None:
    """Refused where each destination of the run has a cut of this delivery, or of one that it does not correct.

    `published`: the cuts of the run's date. The run's own do not count: a repeat of it is none.
    """
    if not isinstance(position, OfDelivery):
        return
    others = [cut for cut in published if cut.run_id != run.run_id and isinstance(cut.position, OfDelivery)]
    found = {cut.destination: (cut, why) for cut in others if (why := position.why_not_after(cut.position))}
    if found.keys() < run.plan.destination_names:
        return
    cut, why = next(iter(found.values()))
    raise Refused(
        f"{why}: it is version {cut.version} of {cut.business_date} in {cut.destination}, by run {cut.run_id}",
        hint="nothing was loaded. A correction is delivered anew, and then the date is run again",
        sync=run.sync,
    )
