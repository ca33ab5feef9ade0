"""Which columns of a sync are declared as sensitive, and that no report shows a value of theirs in another place."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from seamline.domain.errors import ConfigError
from seamline.domain.masking import NOTHING_SAYS, Hidden
from seamline.spec.document import Document, Path_, document_of, read_document
from seamline.spec.table_names import TABLES, note_names

# Columns by which totals are grouped, or of which a total shows a value of one row; the table stands beside them.
_SHOWN = (
    "reconcile.control_totals[].by[]",
    "reconcile.control_totals[].min",
    "reconcile.control_totals[].max",
    "reconcile.rules[].roll_forward.by[]",
    "reconcile.rules[].roll_forward.movements.by[]",
    "reconcile.rules[].sequence.by[]",
)


def hidden_columns(folder: Path, sync: str) -> Hidden:
    """What is masked of a sync. Where its file is gone or wrong nothing says which columns are sensitive: all are."""
    try:
        return Hidden(declared_sensitive(folder, sync))
    except ConfigError:
        return NOTHING_SAYS


def declared_sensitive(folder: Path, sync: str) -> Mapping[str, frozenset[str]]:
    """Of each table of a sync, by its name in it, the sensitive columns, by its file; derived tables too.

    ConfigError where there is no file, or it cannot say it: whoever asks must not take that for "none".
    """
    file = folder / "syncs" / f"{sync}.yaml"
    if not file.is_file():
        raise ConfigError(f"there is no sync file {file}")
    document = read_document(file)
    files = {name: folder / "destinations" / f"{name}.yaml" for _, name in document.texts("destinations[]")}
    note_names(document, {name: document_of(path) for name, path in files.items() if path.is_file()})
    tables = document.value(("tables",))
    places = [tuple(path) for path in _lists(document)]
    if document.faults or not isinstance(tables, list) or not all(_is_list_of_texts(document, one) for one in places):
        raise ConfigError(
            f"{file} does not say which columns are sensitive", hint="`./seamline validate` says what is wrong in it"
        )
    return MappingProxyType(sensitive_of(document))


def sensitive_of(document: Document) -> dict[str, frozenset[str]]:
    """By the tables' names in the sync (`note_names`). Of a derived sum what it groups by is as sensitive as it is in
    its table."""
    found = {
        document.called.get(place, written): frozenset(_texts(document, (*place[:2], "sensitive")))
        for place, written in document.texts(*TABLES)
    }
    for place, name in document.texts("derived[].name"):
        of = document.value((*place[:2], "table"))
        grouped = found.get(of, frozenset()) & set(_texts(document, (*place[:2], "by"))) if isinstance(of, str) else ()
        found[name] = frozenset((*_texts(document, (*place[:2], "sensitive")), *grouped))
    return found


def check_sensitive(document: Document) -> None:
    """Add to a sync's document each total that would show values of a sensitive column."""
    sensitive = sensitive_of(document)
    for place, column in document.texts(*_SHOWN):
        if any(column in sensitive.get(table, ()) for table in _tables_of(document, place)):
            what = "groups of it stand" if place[-2] == "by" else "a value of it stands"
            document.fault(
                place,
                f"column `{column}` is sensitive, and {what} in every report",
                "Group by another column, measure another one, or take it from `sensitive`",
            )


def _tables_of(document: Document, place: Path_) -> Iterator[str]:
    """The tables whose column stands at the place. A grouping of a closing is that of its movements too, where these
    have none of their own."""
    around = place[:3]
    inner = document.value((*around, "roll_forward", "movements"))
    if "movements" not in place:
        yield str(document.value((*around, "table")))
    if "roll_forward" in place and isinstance(inner, dict) and ("movements" in place or inner.get("by") is None):
        yield str(inner.get("table"))


def _lists(document: Document) -> Iterator[Path_]:
    for key in ("tables", "derived"):
        entries = document.value((key,))
        for number, entry in enumerate(entries if isinstance(entries, list) else ()):
            if isinstance(entry, dict) and "sensitive" in entry:
                yield (key, number, "sensitive")


def _is_list_of_texts(document: Document, place: Path_) -> bool:
    value = document.value(place)
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _texts(document: Document, place: Path_) -> list[str]:
    value = document.value(place)
    return [one for one in value if isinstance(one, str)] if isinstance(value, list) else []
