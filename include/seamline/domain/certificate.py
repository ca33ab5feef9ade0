"""The parity certificate: per column, whether the snapshot path and the log path store one and the same value. Pure."""

import os.path
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from seamline.domain.probe import Default

_SHOWN_MAX = 80


class Parity(StrEnum):
    SAME = "SAME"
    DIFFERENT = "DIFFERENT"
    NOT_SENT = "NOT SENT"


@dataclass(frozen=True, slots=True)
class Unlike:
    """One value that is not the same. `wanted` is what `against` holds, `found` what is stored by `path`.

    None is NULL. `value` is the literal that was given to the source.
    """

    value: str
    path: str
    against: str
    wanted: str | None
    found: str | None


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A value that is not sent. `by`: the destination that has no place for it; "" where the source refuses it."""

    value: str
    reason: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class ColumnParity:
    """`values`: how many different values went both ways and were compared. `has_null`: NULL is among those that are
    sent, also where none was compared."""

    table: str
    column: str
    source_type: str
    destination_type: str
    values: int
    unlike: tuple[Unlike, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    default: Default | None = None
    has_null: bool = False

    @property
    def verdict(self) -> Parity:
        if self.unlike:
            return Parity.DIFFERENT
        return Parity.SAME if self.values else Parity.NOT_SENT

    @property
    def null_against_default(self) -> str:
        """Whether NULL was sent against the column's DEFAULT, in words."""
        if self.default is None or not self.values:
            return "nothing was compared"
        if self.default.left_out:
            return f"not tried: {self.default.left_out}"
        return "NULL was sent against it" if self.has_null else "the column takes no NULL"


@dataclass(frozen=True, slots=True)
class DestinationParity:
    """`trouble`: why nothing could be compared; then no column has values. `position`: where both sides were read.
    `version`: "" of a destination that no probe was sent to, which has no columns."""

    destination: str
    version: str
    position: str
    columns: tuple[ColumnParity, ...]
    trouble: str = ""

    @property
    def verdict(self) -> Parity:
        return _worst(column.verdict for column in self.columns)


@dataclass(frozen=True, slots=True)
class Certificate:
    """`versions`: what was under test, each with its version. `limits`: known ones of the types that it has."""

    sync: str
    source: str
    versions: tuple[tuple[str, str], ...]
    destinations: tuple[DestinationParity, ...]
    limits: tuple[tuple[str, str], ...] = ()

    @property
    def verdict(self) -> Parity:
        return _worst(destination.verdict for destination in self.destinations)


def _worst(verdicts: Iterable[Parity]) -> Parity:
    """Nothing at all is not the same."""
    found = set(verdicts) or {Parity.NOT_SENT}
    return next(one for one in (Parity.DIFFERENT, Parity.NOT_SENT, Parity.SAME) if one in found)


def markdown(certificate: Certificate) -> str:
    """The certificate as a document: verdict first, then what was under test, then one line per column."""
    columns = [column for destination in certificate.destinations for column in destination.columns]
    counts = ", ".join(f"{sum(c.verdict is one for c in columns)} {one}" for one in Parity)
    return "\n".join(
        [
            f"# Parity certificate of sync {certificate.sync}: {certificate.verdict}",
            "",
            f"{len(columns)} columns: {counts}. Probe rows of the sync's own tables went from source"
            f" {certificate.source} through the snapshot path and through the log path. SAME: every value is stored"
            " bit for bit alike on both, and is what the source holds.",
            "",
            *_table(("what", "version"), certificate.versions),
            *(line for destination in certificate.destinations for line in _destination(destination)),
            *_section(2, "Known limits: values that were not sent", ("value", "what comes of it"), certificate.limits),
        ]
    )


def _destination(destination: DestinationParity) -> Iterator[str]:
    yield f"## Destination {destination.destination}: {destination.verdict}"
    yield ""
    if destination.version:
        yield f"{destination.version}, compared at {destination.position or 'no position'}."
        yield ""
    if destination.trouble:
        yield f"Nothing was compared: {destination.trouble}"
        yield ""
    yield from _columns(destination)
    unlike = [(c.table, c.column, *_shown(one)) for c in destination.columns for one in c.unlike]
    head = ("table", "column", "value", "path", "held against", "which has", "stored")
    yield from _section(3, "Values that differ", head, unlike)
    left_out = [(c.table, c.column, one) for c in destination.columns for one in c.left_out]
    refused = [(table, column, shortened(one.value), one.reason) for table, column, one in left_out if not one.by]
    yield from _section(3, "Values that the source refuses", ("table", "column", "value", "reason"), refused)
    of_lost = ("table", "column", "value", "destination", "reason")
    lost = [(table, column, shortened(one.value), one.by, one.reason) for table, column, one in left_out if one.by]
    yield from _section(3, "Values that a destination has no place for", of_lost, lost)
    defaults = [
        (c.table, c.column, shortened(c.default.text), c.null_against_default)
        for c in destination.columns
        if c.default is not None
    ]
    yield from _section(3, "NULL against DEFAULT", ("table", "column", "default", "tried"), defaults)


def _columns(destination: DestinationParity) -> Iterator[str]:
    if destination.columns:
        yield from _table(
            ("table", "column", "source type", "destination type", "values", "verdict"),
            [
                (c.table, c.column, c.source_type, c.destination_type, str(c.values), str(c.verdict))
                for c in destination.columns
            ],
        )


def _shown(unlike: Unlike) -> tuple[str, ...]:
    wanted, found = parted(unlike.wanted, unlike.found)
    return shortened(unlike.value), unlike.path, unlike.against, wanted, found


def parted(wanted: str | None, found: str | None) -> tuple[str, str]:
    """Both texts, long ones from shortly before the first character in which they differ."""
    if wanted is None or found is None:
        return shortened(wanted), shortened(found)
    is_long = max(len(wanted), len(found)) > _SHOWN_MAX
    start = max(0, len(os.path.commonprefix((wanted, found))) - _SHOWN_MAX // 2) if is_long else 0
    return shortened(wanted, start=start), shortened(found, start=start)


def shortened(text: str | None, *, start: int = 0) -> str:
    """At most 80 characters from `start`; what was cut off is counted."""
    if text is None:
        return "NULL"
    head = f"({start:,} characters) … " if start else ""
    cut = text[start : start + _SHOWN_MAX]
    left = len(text) - start - len(cut)
    return f"{head}{cut}" + (f" … ({left:,} characters)" if left > 0 else "")


def _section(level: int, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield f"{'#' * level} {title}"
        yield ""
        yield from _table(head, rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield _line(head)
    yield _line(["---"] * len(head))
    for row in rows:
        yield _line([_cell(text) for text in row])
    yield ""


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(text: str) -> str:
    """Control characters as their escapes: a cell is one line."""
    plain = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return plain.replace("|", "\\|")
