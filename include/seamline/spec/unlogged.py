"""What a sync cannot declare whose source has no log (`log: none`), or one that says no commit times."""

from collections.abc import Mapping

from seamline.domain.made_from import MadeFrom
from seamline.spec.consistency import unlogged_refusal
from seamline.spec.document import Document, Path_
from seamline.spec.kinds import destination_models, is_read_alone
from seamline.spec.reconcile_only import is_reconcile_only
from seamline.spec.source import OF_LOG, DeclaredSource

# What is about a stream, or about live tables that one keeps current.
OF_STREAMS: tuple[Path_, ...] = (
    ("stream",),
    ("reconcile", "mode"),
    ("reconcile", "wait_max_s"),
    ("reconcile", "repair"),
    ("reconcile", "repeated"),
)


def is_of_streams(setting: str) -> bool:
    """Whether a setting (`spec.effective`), of a sync or of its source, says nothing where the source has no log."""
    path = tuple(setting.split("."))
    return any(path[: len(place)] == place for place in (*OF_STREAMS, *((key,) for key in OF_LOG)))


def check_unlogged(
    document: Document, sources: Mapping[str, DeclaredSource | None], destinations: Mapping[str, Document]
) -> None:
    """Add to a sync's document what is wrong of it because nobody reads its source's log."""
    source = document.value(("source",))
    spec = sources.get(source) if isinstance(source, str) else None
    if spec is not None and not spec.commit_times:
        why = f"the messages of source `{source}` do not say when a change was committed, by which a cut would end"
        _check_made_from(document, why)
    if spec is None or spec.has_log:
        return
    if is_reconcile_only(document):
        if not is_read_alone(spec.kind):
            cause = f"source `{source}` ({spec.kind}) cannot be read at any time"
            document.fault(("source",), cause, "Take `reconcile_only` out")
        return
    _check_nights(document, why := f"source `{source}` has no log")
    _check_destinations(document, destinations, why)
    if spec.announced_by:
        _check_delivered(document, why=f"source `{source}` delivers each date by itself")


def _check_nights(document: Document, why: str) -> None:
    if "nightly" not in document.data:
        document.fault(("source",), f"{why}: the sync would have neither streams nor nights", "Declare `nightly`")
    _check_made_from(document, f"{why} that a cut could be made from")
    for place in OF_STREAMS:
        if document.value(place) is not None and document.is_right(place):
            document.fault(place, f"{why}, so there is no stream", "Leave it out")


def _check_made_from(document: Document, why: str) -> None:
    place: Path_ = ("nightly", "from")
    if document.value(place) in (MadeFrom.LOG, MadeFrom.AUTO):
        document.fault(place, why, "Write `read`, or leave it out")


def _check_destinations(document: Document, destinations: Mapping[str, Document], why: str) -> None:
    for place, name in document.texts("destinations[]"):
        kind = destinations[name].value(("kind",)) if name in destinations else None
        refused = unlogged_refusal(kind) if isinstance(kind, str) and kind in destination_models() else None
        if refused is not None:
            document.fault(place, f"destination `{name}` ({kind}) {refused.what}", refused.cure)


def _check_delivered(document: Document, *, why: str) -> None:
    """What a sync cannot declare whose source has tables of their own for each date."""
    for place, _ in document.texts("tables[].business_date.column"):
        document.fault(place[:-1], f"{why}: all rows of its tables are of that date", "Leave it out")
    if isinstance(document.value(("nightly", "cut_off")), dict):
        document.fault(("nightly", "cut_off"), f"{why}: it has no date of its own to ask for", "Write a time")
    if document.value(("nightly", "ready_when", "sql")) is not None:
        document.fault(("nightly", "ready_when", "sql"), f"{why}: it answers no query", "Its flag is waited for")
