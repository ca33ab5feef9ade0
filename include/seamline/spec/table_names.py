"""What a sync calls its tables: by `as`, or by a name that follows from where they lie."""

from collections.abc import Collection, Mapping

from seamline.domain.names import NameLimit, fitted_name
from seamline.domain.table_places import SEPARATOR, TablePlace
from seamline.spec.document import Document, Path_
from seamline.spec.fields import is_table_place
from seamline.spec.kinds import destination_models, name_limit
from seamline.spec.source import DeclaredSource

TABLES = ("tables[]", "tables[].name")


def name_in_sync(written: str, as_: str | None, limits: Collection[NameLimit]) -> str:
    """`written` is a name in the source, or `schema.table`; `limits` are those of the sync's destinations."""
    return as_ or fitted_name(written.replace(SEPARATOR, "_"), limits)


def note_names(document: Document, destinations: Mapping[str, Document]) -> None:
    """Fill in `document.called`. What is no name is called as it is written: it is a fault already."""
    limits = [limit for _, limit in _limits(document, destinations)]
    for place, written in document.texts(*TABLES):
        if is_table_place(written):
            document.called[place] = name_in_sync(written, _as(document, place), limits)


def check_table_names(document: Document, source: DeclaredSource | None, destinations: Mapping[str, Document]) -> None:
    """Add to a sync's document names that a destination does not take, and tables that its source cannot give under
    them. `source`: None where it is not known."""
    for place, as_ in document.texts("tables[].as"):
        for destination, limit in _limits(document, destinations):
            if not limit.takes(as_):
                document.fault(place, f"destination `{destination}` takes names of at most {limit}", "Choose another")
    if source is not None:
        _check_places(document, source)


def _check_places(document: Document, source: DeclaredSource) -> None:
    first: dict[TablePlace, Path_] = {}
    right = [(place, written) for place, written in document.texts(*TABLES) if document.is_right(place)]
    for place, written in right:
        lies = TablePlace.declared(written, source.namespace)
        if lies in first:
            line = document.line(first[lies])
            document.fault(place, f"this table is already on line {line}", "Keep one of them")
        first.setdefault(lies, place)
        if not source.names_elsewhere and (SEPARATOR in written or document.called[place] != written):
            cause = f"a source of kind {source.kind} gives its tables under their own names alone"
            document.fault(place, cause, f"Write the name of a table of {source.namespace}, and no `as`")
        elif why := source.refusal(lies):
            document.fault(place, *why)


def _as(document: Document, place: Path_) -> str | None:
    value = document.value((*place[:2], "as"))
    return value if isinstance(value, str) else None


def _limits(document: Document, destinations: Mapping[str, Document]) -> list[tuple[str, NameLimit]]:
    """How long a name may be at each destination of a sync whose kind is known."""
    models = destination_models()
    named = dict.fromkeys(name for _, name in document.texts("destinations[]") if name in destinations)
    kinds = {name: destinations[name].value(("kind",)) for name in named}
    return [(name, name_limit(kind)) for name, kind in kinds.items() if isinstance(kind, str) and kind in models]
