"""Which destinations can be compared by the log (`reconcile.mode`)."""

from collections.abc import Mapping

from seamline.domain.staged_cut import CutSource
from seamline.spec.document import Document, Path_
from seamline.spec.faults import guess, redacted
from seamline.spec.fields import BY_LOG
from seamline.spec.kinds import cut_source, destination_models, takes_streams

_PLACE = ("reconcile", "mode")


def check_modes(document: Document, destinations: Mapping[str, Document]) -> None:
    """Add to a sync's document which of its destinations the log cannot be applied to."""
    known = [name for _, name in document.texts("destinations[]")]
    declared = document.value(_PLACE)
    if not document.is_right(_PLACE) or declared is None:
        return
    named = declared if isinstance(declared, dict) else dict.fromkeys(known, declared)
    for name, mode in named.items():
        place: Path_ = (*_PLACE, name) if isinstance(declared, dict) else _PLACE
        if isinstance(declared, dict) and name not in known:
            document.fault(place, f"{redacted(name)} is no destination of this sync", guess(name, known))
        elif mode == BY_LOG and (why := _unfit(destinations.get(name))):
            document.fault(place, f"destination `{name}` {why}", f"Name the others alone: `mode: {{<name>: {BY_LOG}}}`")


def _unfit(destination: Document | None) -> str:
    """Why a destination is not compared by the log; "" where it may be, or is not known."""
    kind = destination.value(("kind",)) if destination else None
    if not isinstance(kind, str) or kind not in destination_models():
        return ""
    if not takes_streams(kind):
        return f"({kind}) has no live tables to compare"
    if cut_source(kind) is CutSource.LIVE:
        return f"({kind}) keeps versions of its tables: a comparison reads the version of its position"
    return ""
