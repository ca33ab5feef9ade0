"""What a sync must declare for tables whose cuts are stored as versions (`tables[].cut_storage: versions`)."""

from collections.abc import Mapping

from seamline.spec.document import Document, Path_
from seamline.spec.kinds import destination_models, keeps_versions

VERSIONS = "versions"


def check_cut_storage(document: Document, destinations: Mapping[str, Document]) -> None:
    """Add to a sync's document which tables cannot be stored so, and that no destination stores any so."""
    places = [(place, how) for place, how in document.texts("tables[].cut_storage") if how == VERSIONS]
    named = [name for _, name in document.texts("destinations[]") if name in destinations]
    kinds = {name: destinations[name].value(("kind",)) for name in named}
    can = [
        name
        for name, kind in kinds.items()
        if isinstance(kind, str) and kind in destination_models() and keeps_versions(kind)
    ]
    for place, _ in places:
        entry: Path_ = place[:2]
        if document.value((*entry, "business_date")) is not None:
            cause = "a cut of a table with `business_date` has the rows of one date: no two have rows in common"
            document.fault(place, cause, "Leave out `cut_storage`, or `business_date` if each cut shall be whole")
        elif "nightly" not in document.data:
            document.fault(place, "this sync has no cuts", "Declare `nightly`, or leave out `cut_storage`")
        elif kinds and not can:
            cause = f"no destination of this sync stores cuts as versions: {', '.join(kinds)}"
            document.fault(place, cause, "Leave out `cut_storage`: they are stored as this kind always stores them")
