"""What no single value can say of itself: names that must exist, tables that two syncs write, missing powers.

Documents are read here, not specs: what is wrong of one value must not hide what is wrong of another.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from pydantic import ValidationError

from seamline.spec.destination import DestinationSpec
from seamline.spec.document import Document, Path_
from seamline.spec.faults import guess, nearest, shown
from seamline.spec.sync import Nightly, SyncSpec

MARKER_TABLE = "seamline_marker"
_TABLES = ("tables[]", "tables[].name")
_WRITTEN = (*_TABLES, "derived[].name")


def check_sync(
    document: Document,
    *,
    sources: Collection[str],
    destinations: Mapping[str, DestinationSpec | None],
    expectations: Mapping[str, Document],
) -> None:
    """Add to a sync's document what is wrong of it beside the files that it names. None is a destination's file that is
    there but wrong."""
    _check_names(document, sources, destinations, expectations)
    _check_tables(document)
    _check_sums(document)
    _check_suite(document, expectations)
    _check_guarantee(document, destinations)
    _check_nightly(document)


def check_connections(document: Document, places: Iterable[tuple[Path_, str]], known: Collection[str]) -> None:
    """Every connection that a source or destination names is among those that are known here."""
    for place, connection in places:
        if connection not in known:
            _add(document, place, f"there is no connection `{connection}` here", guess(connection, sorted(known)))


def source_connections(document: Document) -> list[tuple[Path_, str]]:
    """(place of the key, connection id) of each role of a source; a key that was left out follows from `connection`."""
    named = document.texts("connection", "capture_connection", "marker_connection")
    if document.value(("capture_connection",)) is None:
        named += [(place, f"{connection}_capture") for place, connection in document.texts("connection")]
    return named


def _check_names(
    document: Document,
    sources: Collection[str],
    destinations: Collection[str],
    expectations: Collection[str],
) -> None:
    named = (
        ("source", "source", "sources", sources),
        ("destinations[]", "destination", "destinations", destinations),
        ("reconcile.expectations", "suite", "expectations", expectations),
    )
    for pattern, word, folder, known in named:
        for place, name in document.texts(pattern):
            if name not in known:
                cure = guess(name, list(known)) or f"Declare it in {folder}/{name}.yaml"
                _add(document, place, f"there is no {word} `{name}`", cure)
    seen: set[str] = set()
    for place, name in document.texts("destinations[]"):
        if name in seen:
            _add(document, place, f"destination `{name}` is already in the list", "Keep one of them")
        seen.add(name)


def _check_tables(document: Document) -> None:
    first: dict[str, Path_] = {}
    for place, name in document.texts(*_WRITTEN):
        folded = name.lower()
        if folded == MARKER_TABLE:
            _add(document, place, f"`{name}` is the marker table, which every capture carries", "Take it out")
        if folded in first:
            line = document.line(first[folded])
            _add(document, place, f"table `{name}` is already on line {line}", "Names differ by more than case")
        first.setdefault(folded, place)


def _check_sums(document: Document) -> None:
    """Every sum and every derived table names a table of the sync."""
    names = {name for _, name in document.texts(*_TABLES)}
    for place, name in document.texts("reconcile.control_totals[].table", "derived[].table"):
        if names and name not in names:
            _add(document, place, f"table `{name}` is not in this sync", _nearest_table(document, name))


def _check_suite(document: Document, expectations: Mapping[str, Document]) -> None:
    names = {name for _, name in document.texts(*_WRITTEN)}
    for place, suite in document.texts("reconcile.expectations"):
        checked: dict[str, Path_] = {}
        for at, table in expectations[suite].texts("checks[].table") if suite in expectations else ():
            checked.setdefault(table, at)
        for table, at in checked.items():
            if names and table not in names:
                where = f"{shown(expectations[suite].file)}:{expectations[suite].line(at)}"
                cause = f"suite `{suite}` checks table `{table}` ({where}), which is not in this sync"
                document.fault(place, cause, _nearest_table(document, table))


def _check_guarantee(document: Document, destinations: Mapping[str, DestinationSpec | None]) -> None:
    place = ("guarantee",)
    guarantee = document.value(place) or SyncSpec.model_fields["guarantee"].default
    if document.is_told(place):
        return
    for _, name in document.texts("destinations[]"):
        destination = destinations.get(name)
        if destination is not None and guarantee not in destination.guarantees:
            document.fault(
                place,
                f"destination `{name}` ({destination.kind}) cannot give {guarantee}",
                f"It gives {', '.join(sorted(destination.guarantees))}",
            )


def _check_nightly(document: Document) -> None:
    if ("nightly",) not in document.lines:
        if document.value(("derived",)):
            document.fault(("derived",), "derived tables are computed from the nightly cut", "Declare `nightly`")
        return
    try:
        nightly = Nightly.model_validate(document.value(("nightly",)))
    except ValidationError:
        return  # told already, and a default in the place of a wrong value says nothing
    start_s = seconds_of(nightly.run_at)
    if start_s >= nightly.as_of_max.total_seconds() and (whole := _read_whole(document)):
        document.fault(
            ("nightly", "as_of_max"),
            f"the run starts at {nightly.run_at}, when {', '.join(whole)}, read whole, count for the date no longer",
            "Raise as_of_max, start earlier, or declare their business_date",
        )
    if nightly.verdict_by is not None and seconds_of(nightly.verdict_by) <= start_s:
        document.fault(
            ("nightly", "verdict_by"), f"is not after run_at {nightly.run_at}", "Both are local times of the same day"
        )


def _read_whole(document: Document) -> list[str]:
    """Tables that the cut holds whole; one of whose keys is wrong may have been meant otherwise."""
    entries = [(place[:2], name) for place, name in document.texts(*_TABLES)]
    return [
        name
        for entry, name in entries
        if document.value((*entry, "business_date")) is None and not document.is_told(entry)
    ]


def check_one_writer_per_table(
    syncs: Sequence[tuple[Document, SyncSpec | None]], destinations: Mapping[str, DestinationSpec | None]
) -> None:
    """Add to their documents that two syncs write one table; no right one suffers for one that is broken (None).

    Two declared destinations may be one schema under two names, so tables are told apart by where they lie."""
    writers: dict[tuple[str, str, str], tuple[Document, Path_]] = {}
    for document, sync in sorted(syncs, key=lambda one: one[1] is None):
        for name in dict(document.texts("destinations[]")).values():
            destination = destinations.get(name)
            for place, table in document.texts(*_WRITTEN) if destination else ():
                assert destination is not None
                address = (destination.connection, destination.schema_.lower(), table.lower())
                other, other_place = writers.setdefault(address, (document, place))
                if other is not document:
                    what = f"{destination.schema_}.{table} of {name}"
                    _two_writers(document, place, other, other_place, what)
                    if sync is not None:
                        _two_writers(other, other_place, document, place, what)


def _two_writers(document: Document, place: Path_, other: Document, other_place: Path_, what: str) -> None:
    _add(
        document,
        place,
        f"{what} is also written by sync `{other.file.stem}` ({shown(other.file)}:{other.line(other_place)})",
        "One table has one writer: take it out of one sync, or give one of them another destination",
    )


def _nearest_table(document: Document, wrong: str) -> str:
    """Either name may be the one that is misspelt: the sync is the first to name its tables."""
    lines = {name: document.line(place) for place, name in document.texts(*_WRITTEN)}
    near = nearest(wrong, list(lines))
    if not near:
        return guess(wrong, list(lines))
    return f"Did you mean `{near}`, or is that one misspelt, on line {lines[near]}?"


def _add(document: Document, place: Path_, cause: str, cure: str) -> None:
    """One mistake is told once: what is wrong of a name as such comes before what it does not fit to."""
    if not document.is_told(place):
        document.fault(place, cause, cure)


def seconds_of(time_of_day: str) -> int:
    """Seconds after midnight of "HH:MM"."""
    hours, minutes = time_of_day.split(":")
    return int(hours) * 3600 + int(minutes) * 60
