"""What no single value can say of itself: names that must exist, tables that two syncs write, missing powers.

Documents are read here, not specs: what is wrong of one value must not hide what is wrong of another. One mistake is
reported once: what follows from a name that is wrong, or cannot be read, waits until that one is mended.
"""

import difflib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from pydantic import ValidationError

from seamline.domain.cut_names import changes_view, current_view, proven_view, table_of_partition
from seamline.domain.made_from import MadeFrom
from seamline.domain.staged_cut import CutSource
from seamline.spec.consistency import guarantee_refusal
from seamline.spec.cut_storage import check_cut_storage
from seamline.spec.day_slice import check_day_slice
from seamline.spec.document import Document, Path_
from seamline.spec.faults import UNKNOWN_KEY, guess, nearest, redacted, shown
from seamline.spec.fields import NAME, is_sql_name
from seamline.spec.kinds import (
    carries_cuts_on,
    cut_source,
    destination_models,
    holds_cuts,
    kinds_with_all_powers,
    namespace_key,
    powers_lacking,
    source_models,
    takes_streams,
)
from seamline.spec.modes import check_modes
from seamline.spec.night_inputs import check_cursors, check_dated_transforms, check_system_date
from seamline.spec.reconcile_only import check_reconcile_only
from seamline.spec.sensitive import check_sensitive
from seamline.spec.source import DeclaredSource
from seamline.spec.sync import Nightly, SyncSpec
from seamline.spec.table_names import TABLES, check_table_names, note_names
from seamline.spec.tolerances import check_tolerances
from seamline.spec.unlogged import check_unlogged

MARKER_TABLE = "seamline_marker"


def check_sync(
    document: Document,
    *,
    sources: Mapping[str, DeclaredSource | None],
    destinations: Mapping[str, Document],
    expectations: Mapping[str, Document],
    calendars: Collection[str] = (),
) -> None:
    """Add to a sync's document what is wrong of it beside the files that it names. `sources`: None where one is not
    right itself."""
    note_names(document, destinations)
    check_reconcile_only(document, destinations)
    check_unlogged(document, sources, destinations)
    _check_names(document, sources, destinations, expectations)
    _check_tables(document)
    source = document.value(("source",))
    check_table_names(document, sources.get(source) if isinstance(source, str) else None, destinations)
    _check_sums(document)
    _check_rules(document, destinations)
    check_sensitive(document)
    check_tolerances(document)
    _check_suite(document, expectations)
    _check_places(document, destinations)
    _check_guarantee(document, destinations)
    _check_powers(document, destinations)
    _check_cuts_only(document, destinations)
    _check_made_from(document, destinations)
    check_day_slice(document, destinations)
    check_cursors(document)
    check_system_date(document)
    check_dated_transforms(document)
    check_cut_storage(document, destinations)
    _check_nightly(document)
    _check_calendars(document, calendars)
    check_modes(document, destinations)
    _check_cut_off(document)


def check_connections(
    document: Document, places: Iterable[tuple[Path_, str]], known: Mapping[str, str], *, wanted: str, by: str = ""
) -> None:
    """Every connection that a source or destination names is among those that are known here, and of the type that its
    kind, or `by`, connects by."""
    for place, connection in places:
        # What is no id may be an address with a password.
        if NAME.fullmatch(connection) and connection not in known:
            _add(document, place, *unknown_connection(connection, known))
        elif wanted and (found := known.get(connection)) and found != wanted:
            who = by or f"kind {document.data['kind']}"
            cause = f"connection `{connection}` is of type {found}; {who} needs type {wanted}"
            cure = "Name another connection" if by else "Name another connection, or another kind"
            _add(document, place, cause, cure)


def unknown_connection(connection: str, known: Iterable[str]) -> tuple[str, str]:
    """Cause and cure."""
    cure = (
        f"{_meant(connection, known)}`./seamline connect add {connection} kind://login@host/database`, or set"
        f" SEAMLINE_CONNECTION_{connection.upper()} to a URI"
    )
    return f"there is no connection `{connection}` here", cure


def _meant(connection: str, known: Iterable[str]) -> str:
    """Ids of one server's logins resemble each other: only a slip of the pen is guessed."""
    near = difflib.get_close_matches(connection, sorted(known), n=1, cutoff=0.85)
    return f"Did you mean `{near[0]}`? " if near else ""


def source_connections(document: Document) -> list[tuple[Path_, str]]:
    """(place of the key, connection id) of each role of a source; a key that was left out follows from `connection`."""
    model = source_models().get(str(document.value(("kind",))))
    if model is not None and "capture_connection" not in model.model_fields:
        return document.texts("connection")
    named = document.texts("connection", "capture_connection", "marker_connection")
    if document.data and "capture_connection" not in document.data and not _has_unknown_key(document):
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


def _tables(document: Document) -> list[tuple[Path_, str]]:
    """(place, name in the sync) of every table of the source."""
    return [(place, document.called.get(place, written)) for place, written in document.texts(*TABLES)]


def _derived(document: Document) -> list[tuple[Path_, str]]:
    return document.texts("derived[].name")


def _written(document: Document) -> list[tuple[Path_, str]]:
    """(place, name) of every table that the sync writes, those of the source first."""
    return [*_tables(document), *_derived(document)]


def _check_tables(document: Document) -> None:
    first: dict[str, Path_] = {}
    for place, name in _written(document):
        if name.lower() == MARKER_TABLE:
            _add(document, place, f"`{name}` is the marker table, which every capture carries", "Take it out")
        if name in first:
            other, line = document.value(first[name]), document.line(first[name])
            same = document.value(place) == other
            if same:
                _add(document, place, f"table `{name}` is already on line {line}", "Keep one of them")
            else:
                cause = f"this table and the one on line {line} are both called `{name}`"
                _add(document, place, cause, "Give one of them another name with `as`")
        first.setdefault(name, place)
    entries = document.value(("tables",))
    if isinstance(entries, list) and entries and all(isinstance(one, dict) and "parked" in one for one in entries):
        cure = "Take `parked` out of one. `seamline stream pause` lets a whole sync stand still"
        _add(document, ("tables",), "every table is parked: nothing is left to carry", cure)


def _check_sums(document: Document) -> None:
    """Every sum and every derived table names a table of the sync."""
    tables = {name for _, name in _tables(document)}
    named = (
        "reconcile.control_totals[].table",
        "reconcile.rules[].table",
        "reconcile.rules[].roll_forward.movements.table",
        "derived[].table",
    )
    for place, name in document.texts(*named):
        if name not in tables and _is_strange(document, name, ("tables",)):
            _add(document, place, f"table `{name}` is not in this sync", _nearest_table(document, name))


def _check_rules(document: Document, destinations: Mapping[str, Document]) -> None:
    """Each rule has a name of its own, by which the next date finds what this one has left. Where the cuts of a table
    with business dates hold all of them, its closing is not that of one date."""
    first: dict[str, Path_] = {}
    for place, name in document.texts("reconcile.rules[].name"):
        if name in first:
            cause = f"a rule on line {document.line(first[name])} is called `{name}` too"
            _add(document, place, cause, "Give one of them another name")
        first.setdefault(name, place)
    if document.value(("reconcile", "rules")) and "nightly" not in document.data and not _has_unknown_key(document):
        _add(document, ("reconcile", "rules"), "rules are about the nightly cut", "Declare `nightly`")
    dated = {name for place, name in _tables(document) if document.value((*place[:2], "business_date")) is not None}
    whole = [name for _, name in document.texts("destinations[]") if _holds_all_dates(destinations.get(name))]
    for place, table in document.texts("reconcile.rules[].table") if whole else ():
        if table in dated and document.value((*place[:-1], "roll_forward")) is not None:
            cause = f"the cuts of destination `{whole[0]}` hold all dates of `{table}`: its closing is that of no date"
            _add(document, place, cause, "Name a table without `business_date`, or use another destination")


def _check_suite(document: Document, expectations: Mapping[str, Document]) -> None:
    written = {name for _, name in _written(document)}
    for place, name in document.texts("reconcile.expectations"):
        suite = expectations.get(name)
        checked: dict[str, Path_] = {}
        for at, table in suite.texts("checks[].table", "expectations[].meta.table") if suite else ():
            if suite and suite.is_right(at):
                checked.setdefault(table, at)
        for table, at in checked.items():
            if suite and table not in written and _is_strange(document, table, ("tables", "derived")):
                where = f"{shown(suite.file)}:{suite.line(at)}"
                cause = f"suite `{name}` checks table `{table}` ({where}), which is not in this sync"
                document.fault(place, cause, _nearest_table(document, table))


def _is_strange(document: Document, table: str, lists: Sequence[str]) -> bool:
    """Whether these lists of the sync, in which the table does not stand, certainly were not meant to hold it. An entry
    that is wrong may have been meant by a name that is not near to any other."""
    held = [(name, place) for place, name in _written(document) if place[0] in lists]
    known = dict(held)
    near = nearest(table, list(known))
    if near and not document.is_right(known[near]):
        return False
    entries = [document.value((key,)) for key in lists if key in document.data]
    are_lists = "tables" in document.data and all(isinstance(one, list) for one in entries)
    read = [place for name, place in held if is_sql_name(name)]
    return bool(near) or (are_lists and len(read) == sum(len(one) for one in entries))


def _check_places(document: Document, destinations: Mapping[str, Document]) -> None:
    """Two destinations of one sync are two places."""
    first: dict[tuple[str, str], str] = {}
    for place, name in document.texts("destinations[]"):
        where = _place_of(destinations.get(name))
        if where is None or (other := first.setdefault(where, name)) == name:
            continue
        connection, namespace = where
        there = f"{namespace} of connection `{connection}`" if namespace else f"connection `{connection}`"
        cause = f"destinations `{other}` and `{name}` are one place, {there}"
        _add(document, place, cause, "Take one of them out, or let it name another place")


def _check_guarantee(document: Document, destinations: Mapping[str, Document]) -> None:
    place, models = ("guarantee",), destination_models()
    guarantee = document.value(place) or SyncSpec.model_fields["guarantee"].default
    for _, name in document.texts("destinations[]") if document.is_right(place) else ():
        kind = destinations[name].value(("kind",)) if name in destinations else None
        refused = guarantee_refusal(kind, guarantee) if isinstance(kind, str) and kind in models else None
        if refused is not None:
            document.fault(place, f"destination `{name}` ({kind}) {refused.what}", refused.cure)


def _check_powers(document: Document, destinations: Mapping[str, Document]) -> None:
    """A stage that needs a power which a destination lacks is refused here, with the kinds that have it."""
    models = destination_models()
    others_cut = any(holds_cuts(kind) for kind in _kinds(document, destinations))
    for place, name in document.texts("destinations[]"):
        kind = destinations[name].value(("kind",)) if name in destinations else None
        for keys, cannot in powers_lacking(kind).items() if isinstance(kind, str) and kind in models else ():
            # Nights, and what is computed and checked of them, leave it out.
            if keys and others_cut and not holds_cuts(str(kind)):
                continue
            paths: list[Path_] = [tuple(key.split(".")) for key in keys]
            if all(document.value(path) is not None for path in paths):
                others = f"Use a destination of kind {' or '.join(kinds_with_all_powers())}"
                cure = f"{others}, or leave `{keys[-1]}` out" if keys else others
                document.fault(paths[-1] if paths else place, f"destination `{name}` ({kind}) cannot {cannot}", cure)
        lacking = models[kind].lacks(destinations[name].data) if isinstance(kind, str) and kind in models else {}
        for key, why in lacking.items():
            if document.value(path := tuple(key.split("."))) is not None:
                document.fault(path, f"destination `{name}` {why}", f"Leave `{key}` out, or use another destination")


def _kinds(document: Document, destinations: Mapping[str, Document]) -> list[str]:
    """Of its destinations, as far as they are known."""
    found = (_kind_of(destinations.get(name)) for _, name in document.texts("destinations[]"))
    return [kind for kind in found if kind]


def _check_made_from(document: Document, destinations: Mapping[str, Document]) -> None:
    """Who wants cuts that begin with an earlier one has destinations that carry their cuts on."""
    path: Path_ = ("nightly", "from")
    by = {MadeFrom.LOG: "and the log", MadeFrom.INCREMENTAL: "and a read of what came since"}.get(document.value(path))
    if by is None:
        return
    for _, name in document.texts("destinations[]"):
        kind = _kind_of(destinations.get(name))
        if kind and holds_cuts(kind) and not carries_cuts_on(kind):
            cause = f"destination `{name}` ({kind}) cannot make a cut from the one before it {by}"
            other = "auto" if document.value(path) == MadeFrom.LOG else "read"
            document.fault(path, cause, f"Write `{other}`: destinations that cannot are read, or cut as they stand")


def _check_cuts_only(document: Document, destinations: Mapping[str, Document]) -> None:
    """A destination without live tables has its nights."""
    if "nightly" in document.data or _has_unknown_key(document):
        return
    for place, name in document.texts("destinations[]"):
        if (kind := _kind_of(destinations.get(name))) and not takes_streams(kind):
            cause = f"destination `{name}` ({kind}) takes cuts only, and this sync makes none"
            _add(document, place, cause, "Declare `nightly`, or take the destination out")


def _check_cut_off(document: Document) -> None:
    place, known = ("stream", "cut_off_behind_gb"), [name for _, name in document.texts("destinations[]")]
    named = document.value(place)
    for name in named if isinstance(named, dict) and document.is_right(place) else ():
        if name not in known:
            document.fault((*place, name), f"{redacted(name)} is no destination of this sync", guess(name, known))


def _kind_of(destination: Document | None) -> str:
    """ "" where it is not known."""
    kind = destination.value(("kind",)) if destination else None
    return kind if isinstance(kind, str) and kind in destination_models() else ""


def _check_nightly(document: Document) -> None:
    if "nightly" not in document.data:
        if document.value(("derived",)) and not document.causes(("derived",)) and not _has_unknown_key(document):
            document.fault(("derived",), "derived tables are computed from the nightly cut", "Declare `nightly`")
        return
    try:
        nightly = Nightly.model_validate(document.value(("nightly",)))
    except ValidationError:
        return  # reported already, and a default in the place of a wrong value says nothing
    _check_stages_by(document, nightly)
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


def _check_stages_by(document: Document, nightly: Nightly) -> None:
    """Each behind the start of the night and behind the stage before it."""
    before, by = "run_at", nightly.run_at
    for stage, hour in nightly.stages_by.model_dump().items():
        if hour is None:
            continue
        if seconds_of(hour) <= seconds_of(by):
            place = ("nightly", "stages_by", stage)
            _add(document, place, f"is not after {before} {by}", "All are local times of the day after the date")
        before, by = stage, hour


def _check_calendars(document: Document, calendars: Collection[str]) -> None:
    first: dict[str, Path_] = {}
    for place, name in document.texts("nightly.calendars[]"):
        if name not in calendars:
            cure = guess(name, list(calendars)) if calendars else "Write include/calendars/<calendar>.yaml"
            _add(document, place, f"there is no calendar `{name}`", cure)
        elif first.setdefault(name, place) != place:
            _add(document, place, f"calendar `{name}` is already on line {document.line(first[name])}", "Keep one")


def _read_whole(document: Document) -> list[str]:
    """Tables that the cut holds whole; one of whose keys is wrong may have been meant otherwise. A parked one is not
    in it."""
    entries = [(place[:2], name) for place, name in _tables(document)]
    return [
        name
        for entry, name in entries
        if document.value((*entry, "business_date")) is None
        and document.value((*entry, "parked")) is None
        and document.is_right(entry)
    ]


def check_one_writer_per_table(
    syncs: Sequence[Document], destinations: Mapping[str, Document], *, broken: Collection[str]
) -> None:
    """Add to their documents that two syncs write one table; a right sync does not suffer for one that is broken: those
    whose file has a name in `broken`.

    Two declared destinations may be one schema under two names, so tables are identified by where they lie. A parked
    table keeps its place: it comes back there."""
    right = [document.file.stem not in broken for document in syncs]
    writers: dict[tuple[str, str, str], tuple[int, Path_]] = {}
    for number in sorted(range(len(syncs)), key=lambda number: not right[number]):
        document = syncs[number]
        for destination in dict.fromkeys(name for _, name in document.texts("destinations[]")):
            schema = _place_of(destinations.get(destination))
            for place, table in _written(document) if schema else ():
                assert schema is not None
                other, other_place = writers.setdefault((*schema, table), (number, place))
                if other != number:
                    what = f"{schema[1]}.{table} of {destination}"
                    _two_writers(document, place, syncs[other], other_place, what)
                    if right[number] or not right[other]:
                        _two_writers(syncs[other], other_place, document, place, what)


def check_names_of_cuts(
    syncs: Sequence[Document], destinations: Mapping[str, Document], *, broken: Collection[str]
) -> None:
    """Add to their documents that a table has a name which the nightly cuts of another one take for themselves. A right
    sync does not suffer for one that is broken."""
    nightly = [document for document in syncs if "nightly" in document.data]
    with_own_tables = {name: found for name, found in destinations.items() if _cut_source(found) is CutSource.ROWS}
    live = _places(syncs, destinations, _tables)
    cut = _places(nightly, with_own_tables, _written)
    partitions: dict[tuple[tuple[str, str], str], list[tuple[Document, Path_]]] = {}
    for (schema, name), one in cut.items():
        if of_table := table_of_partition(name):
            partitions.setdefault((schema, of_table), []).append(one)
    for (schema, name), of_cuts in cut.items():
        taken = [(live.get((schema, proven_view(name))), "the view of the newest proven one")]
        taken += [(cut.get((schema, current_view(name))), "the view of those that count")]
        taken += [(cut.get((schema, changes_view(name))), "the view of what differs between two of them")]
        taken += [(one, "one of them") for one in partitions.get((schema, name), ())]
        for found, what in taken:
            if found is not None:
                _taken_by_cuts(found, of_cuts, what, broken)


def check_tables_of_destinations(syncs: Sequence[Document], destinations: Mapping[str, Document]) -> None:
    """Add to their documents that a destination says something of a table that no sync brings there."""
    for name, destination in destinations.items():
        bringing = [sync for sync in syncs if name in (called for _, called in sync.texts("destinations[]"))]
        brought = [table for sync in bringing for _, table in _tables(sync)]
        for place, table in destination.texts("tables[].name") if bringing else ():
            if table not in brought:
                cause = f"no sync brings a table `{table}` to destination `{name}`"
                _add(destination, place, cause, guess(table, brought))


def check_folders_of_destinations(
    syncs: Sequence[Document], destinations: Mapping[str, Document], *, broken: Collection[str]
) -> None:
    """Add to their documents that two destinations, of one sync or of two, need one place for themselves: maintenance
    of one would drop what only the other knows. A destination that no right sync names takes nothing from another."""
    used = dict.fromkeys(
        name for sync in syncs if sync.file.stem not in broken for _, name in sync.texts("destinations[]")
    )
    # Before any of them has a fault.
    found = {
        name: (folder, _place_of(destinations[name])) for name in used if (folder := _folder_of(destinations.get(name)))
    }
    for name, (folder, place) in found.items():
        for other, (other_folder, other_place) in found.items():
            if folder == other_folder:
                what = f"the folder {folder}"
            elif place is not None and place == other_place:
                what = f"{place[1]} of connection `{place[0]}`"
            else:
                what = ""
            if not what or name == other:
                continue
            key, other_key = (namespace_key(_kind_of(destinations[one])) for one in (name, other))
            file, line = destinations[other].file, destinations[other].line((other_key,))
            cause = f"destination `{other}` ({shown(file)}:{line}) has {what} too"
            cure = "Let one of them have another namespace, or bring all tables to one destination"
            _add(destinations[name], (key,), cause, cure)


def _folder_of(destination: Document | None) -> str:
    kind = _kind_of(destination)
    return destination_models()[kind].folder(destination.data) if destination is not None and kind else ""


def _holds_all_dates(destination: Document | None) -> bool:
    return destination is not None and _cut_source(destination) is CutSource.LIVE


def _cut_source(destination: Document) -> CutSource | None:
    """None where its kind is not known."""
    kind = destination.value(("kind",))
    return cut_source(kind) if isinstance(kind, str) and kind in destination_models() else None


def _places(
    syncs: Sequence[Document],
    destinations: Mapping[str, Document],
    tables_of: Callable[[Document], list[tuple[Path_, str]]],
) -> dict[tuple[tuple[str, str], str], tuple[Document, Path_]]:
    """By schema and name: where a table is declared."""
    return {
        (schema, name): (document, place)
        for document in syncs
        for _, destination in document.texts("destinations[]")
        if (schema := _place_of(destinations.get(destination)))
        for place, name in tables_of(document)
    }


def _taken_by_cuts(
    table: tuple[Document, Path_], of_cuts: tuple[Document, Path_], what: str, broken: Collection[str]
) -> None:
    names = tuple(f"`{document.called.get(place, document.value(place))}`" for document, place in (table, of_cuts))
    cause = f"the nightly cuts of table {names[1]} take the name {names[0]} for {what}"
    cure = "Take one of the two tables out, or let one go into a destination with another schema"
    for (document, place), (other, other_place) in ((table, of_cuts), (of_cuts, table)):
        if document is not other and other.file.stem in broken and document.file.stem not in broken:
            continue
        if document is not other or place == table[1]:
            _add(document, place, f"{cause} ({shown(other.file)}:{other.line(other_place)})", cure)


def _place_of(destination: Document | None) -> tuple[str, str] | None:
    """(connection id, where its tables lie there, in lower case); None where either cannot be read."""
    kind = destination.value(("kind",)) if destination else None
    if destination is None or not isinstance(kind, str) or kind not in destination_models():
        return None
    key = namespace_key(kind)
    found = [*destination.texts("connection"), *(destination.texts(key) if key else ())]
    are_right = len(found) == (2 if key else 1) and all(destination.is_right(place) for place, _ in found)
    return (found[0][1], found[1][1].lower() if key else "") if are_right else None


def _two_writers(document: Document, place: Path_, other: Document, other_place: Path_, what: str) -> None:
    _add(
        document,
        place,
        f"{what} is also written by sync `{other.file.stem}` ({shown(other.file)}:{other.line(other_place)})",
        "One table has one writer: take it out of one sync, or give one of them another destination",
    )


def _nearest_table(document: Document, wrong: str) -> str:
    """Either name may be the one that is misspelt: the sync is the first to name its tables."""
    lines = {name: document.line(place) for place, name in _written(document) if is_sql_name(name)}
    near = nearest(wrong, list(lines))
    if not near:
        return guess(wrong, list(lines))
    return f"Did you mean `{near}`, or is that one misspelt, on line {lines[near]}?"


def _has_unknown_key(document: Document) -> bool:
    """Whether a key at the top is unknown: it may have been meant for one that seems to be left out."""
    return any(fault.cause == UNKNOWN_KEY and not {".", "["} & {*fault.path} for fault in document.faults)


def _add(document: Document, place: Path_, cause: str, cure: str) -> None:
    """Report one fault per place: a syntax error of a name comes first, and its reference errors are left out."""
    if document.is_right(place):
        document.fault(place, cause, cure)


def seconds_of(time_of_day: str) -> int:
    """Seconds after midnight of "HH:MM"."""
    hours, minutes = time_of_day.split(":")
    return int(hours) * 3600 + int(minutes) * 60
