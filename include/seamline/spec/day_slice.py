"""What a sync must declare whose nights replace one business date (`nightly.from: day_slice`)."""

from collections.abc import Mapping

from seamline.domain.made_from import MadeFrom
from seamline.domain.staged_cut import CutSource
from seamline.spec.document import Document, Path_
from seamline.spec.kinds import cut_source, destination_models


def check_day_slice(document: Document, destinations: Mapping[str, Document]) -> None:
    """Add to a sync's document which tables have no date to be replaced by, and which destinations replace none."""
    if document.value(("nightly", "from")) != MadeFrom.DAY_SLICE:
        return
    for place, name in document.texts("tables[]", "tables[].name"):
        entry: Path_ = place[:2]
        is_out = any(document.value((*entry, key)) is not None for key in ("business_date", "parked"))
        if not is_out and document.is_right(entry):
            cause = f"table `{name}` has no `business_date`, and `from: day_slice` replaces one date of each table"
            document.fault(place, cause, "Say which column holds it, write `from: read`, or give it a sync of its own")
    for place, name in document.texts("destinations[]"):
        kind = destinations[name].value(("kind",)) if name in destinations else None
        if isinstance(kind, str) and kind in destination_models() and cut_source(kind) is CutSource.LIVE:
            cause = f"destination `{name}` ({kind}) makes its cuts of live tables, each of them whole"
            document.fault(place, cause, "Write `from: read`, or use another destination")
