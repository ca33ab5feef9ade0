"""What no single file can say of itself: names that must exist, tables that two syncs write, missing powers."""

from collections.abc import Collection, Mapping, Sequence

from seamline.spec.destination import DestinationSpec
from seamline.spec.document import Document, Path_
from seamline.spec.expectations import ExpectationsSpec
from seamline.spec.faults import guess, nearest, shown
from seamline.spec.source import SourceSpec
from seamline.spec.sync import SyncSpec

MARKER_TABLE = "seamline_marker"


def check_folder(
    syncs: Sequence[tuple[Document, SyncSpec]], destinations: Mapping[str, DestinationSpec | None]
) -> None:
    """Add to its document what only holds of all values of a sync together, and of it beside the others: they must not
    suffer for one that is broken, and a default in the place of a wrong value says nothing."""
    for document, sync in syncs:
        _check_guarantee(document, sync, destinations)
        _check_nightly(document, sync)
    _check_one_writer_per_table(syncs, destinations)


def check_right_part(
    document: Document,
    sync: SyncSpec,
    *,
    sources: Mapping[str, SourceSpec | None],
    destinations: Mapping[str, DestinationSpec | None],
    expectations: Mapping[str, ExpectationsSpec | None],
) -> None:
    """Add to its document what can be said of a sync value by value, though others be wrong. None is a file that is
    there but wrong."""
    _check_names(document, sync, sources, destinations, expectations)
    _check_tables(document, sync)
    _check_sums(document, sync)
    _check_suite(document, sync, expectations)


def _check_names(
    document: Document,
    sync: SyncSpec,
    sources: Mapping[str, SourceSpec | None],
    destinations: Mapping[str, DestinationSpec | None],
    expectations: Mapping[str, ExpectationsSpec | None],
) -> None:
    if sync.source not in sources:
        document.fault(("source",), f"there is no source `{sync.source}`", _known(sync.source, sources, "sources"))
    for number, name in enumerate(sync.destinations):
        place = ("destinations", number)
        if name not in destinations:
            document.fault(place, f"there is no destination `{name}`", _known(name, destinations, "destinations"))
        if name in sync.destinations[:number]:
            document.fault(place, f"destination `{name}` is already in the list", "Keep one of them")
    suite = sync.reconcile.expectations
    if suite is not None and suite not in expectations:
        document.fault(
            ("reconcile", "expectations"),
            f"there is no suite `{suite}`",
            _known(suite, expectations, "expectations"),
        )


def _check_tables(document: Document, sync: SyncSpec) -> None:
    first: dict[str, Path_] = {}
    places: list[tuple[str, Path_]] = [(entry.name, ("tables", n)) for n, entry in enumerate(sync.tables)]
    places += [(entry.name, ("derived", n, "name")) for n, entry in enumerate(sync.derived)]
    for name, place in places:
        folded = name.lower()
        if folded == MARKER_TABLE:
            document.fault(place, f"`{name}` is the marker table, which every capture carries", "Take it out")
        if folded in first:
            line = document.line(first[folded])
            document.fault(place, f"table `{name}` is already on line {line}", "Names differ by more than case")
        first.setdefault(folded, place)


def _check_sums(document: Document, sync: SyncSpec) -> None:
    """Every sum and every derived table names a table of the sync."""
    names = [entry.name for entry in sync.tables]
    places: list[tuple[str, Path_]] = [
        (total.table, ("reconcile", "control_totals", n, "table"))
        for n, total in enumerate(sync.reconcile.control_totals)
    ]
    places += [(derived.table, ("derived", n, "table")) for n, derived in enumerate(sync.derived)]
    for name, place in places:
        if name not in names:
            document.fault(place, f"table `{name}` is not in this sync", _nearest_table(document, sync, name))


def _check_guarantee(document: Document, sync: SyncSpec, destinations: Mapping[str, DestinationSpec | None]) -> None:
    for name in sync.destinations:
        destination = destinations.get(name)
        if destination is not None and sync.guarantee not in destination.guarantees:
            document.fault(
                ("guarantee",),
                f"destination `{name}` ({destination.kind}) cannot give {sync.guarantee}",
                f"It gives {', '.join(sorted(destination.guarantees))}",
            )


def _check_nightly(document: Document, sync: SyncSpec) -> None:
    nightly = sync.nightly
    if nightly is None:
        if sync.derived:
            document.fault(("derived",), "derived tables are computed from the nightly cut", "Declare `nightly`")
        return
    whole = [entry.name for entry in sync.tables if entry.business_date is None]
    start_s = seconds_of(nightly.run_at)
    if whole and start_s >= nightly.as_of_max.total_seconds():
        document.fault(
            ("nightly", "as_of_max"),
            f"the run starts at {nightly.run_at}, when {', '.join(whole)}, read whole, count for the date no longer",
            "Raise as_of_max, start earlier, or declare their business_date",
        )
    if nightly.verdict_by is not None and seconds_of(nightly.verdict_by) <= start_s:
        document.fault(
            ("nightly", "verdict_by"), f"is not after run_at {nightly.run_at}", "Both are local times of the same day"
        )


def check_connections(
    document: Document, declared: SourceSpec | DestinationSpec | None, known: Collection[str]
) -> None:
    """Every connection that a source or destination names is among those that are known here."""
    for place, connection in dict.fromkeys(declared.connections() if declared else ()):
        if connection not in known:
            document.fault((place,), f"there is no connection `{connection}` here", guess(connection, sorted(known)))


def _check_suite(document: Document, sync: SyncSpec, expectations: Mapping[str, ExpectationsSpec | None]) -> None:
    suite = expectations.get(sync.reconcile.expectations or "")
    if suite is None:
        return
    names = [entry.name for entry in sync.tables] + [entry.name for entry in sync.derived]
    for table in dict.fromkeys(check.table for check in suite.checks if check.table not in names):
        document.fault(
            ("reconcile", "expectations"),
            f"suite `{suite.expectations}` checks table `{table}`, which is not in this sync",
            _nearest_table(document, sync, table),
        )


def _nearest_table(document: Document, sync: SyncSpec, wrong: str) -> str:
    """Either name may be the one that is misspelt: the sync is the first to name its tables."""
    lines = {entry.name: document.line(("tables", number)) for number, entry in enumerate(sync.tables)}
    lines |= {entry.name: document.line(("derived", number, "name")) for number, entry in enumerate(sync.derived)}
    near = nearest(wrong, list(lines))
    if not near:
        return guess(wrong, list(lines))
    return f"Did you mean `{near}`, or is that one misspelt, on line {lines[near]}?"


def _check_one_writer_per_table(
    syncs: Sequence[tuple[Document, SyncSpec]], destinations: Mapping[str, DestinationSpec | None]
) -> None:
    """Two declared destinations may be one schema under two names, so tables are told apart by where they lie."""
    writers: dict[tuple[str, str, str], tuple[Document, Path_]] = {}
    for document, sync in syncs:
        places: list[tuple[str, Path_]] = [(entry.name, ("tables", n)) for n, entry in enumerate(sync.tables)]
        places += [(entry.name, ("derived", n, "name")) for n, entry in enumerate(sync.derived)]
        for name in dict.fromkeys(sync.destinations):
            destination = destinations.get(name)
            if destination is None:
                continue
            for table, place in places:
                address = (destination.connection, destination.schema_.lower(), table.lower())
                other, other_place = writers.setdefault(address, (document, place))
                if other is not document:
                    _two_writers(document, place, other, other_place, f"{destination.schema_}.{table} of {name}")
                    _two_writers(other, other_place, document, place, f"{destination.schema_}.{table} of {name}")


def _two_writers(document: Document, place: Path_, other: Document, other_place: Path_, what: str) -> None:
    document.fault(
        place,
        f"{what} is also written by sync `{other.file.stem}` ({shown(other.file)}:{other.line(other_place)})",
        "One table has one writer: take it out of one sync, or give one of them another destination",
    )


def seconds_of(time_of_day: str) -> int:
    """Seconds after midnight of "HH:MM"."""
    hours, minutes = time_of_day.split(":")
    return int(hours) * 3600 + int(minutes) * 60


def _known(wrong: str, known: Mapping[str, object], folder: str) -> str:
    return guess(wrong, list(known)) or f"Declare it in {folder}/{wrong}.yaml"
