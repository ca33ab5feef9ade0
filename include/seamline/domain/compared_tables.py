"""Two tables that nobody of ours has made, as one comparison can read them: each with its own types, in one order and
under one key.

A value has one canonical text on every engine (`domain.canonical`), but only types that hold the same thing give the
same text. What does not is named here before a row is read: a comparison of unlike types would call every row a break.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from seamline.domain.canonical import is_exact
from seamline.domain.catalogue import Column, Kind, Table

_WHOLE = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.BOOLEAN})
# Kinds whose canonical texts are alike, beside those of one kind.
_ALIKE = (
    frozenset({Kind.CHAR, Kind.STRING, Kind.ENUM, Kind.SET}),
    frozenset({Kind.BINARY, Kind.BYTES}),
    frozenset({Kind.TIME, Kind.TIME_OF_DAY}),
)
# The first of these that a side has is what both can hold.
_NARROWEST = (
    Kind.BOOLEAN,
    Kind.INTEGER,
    Kind.UNSIGNED,
    Kind.ENUM,
    Kind.SET,
    Kind.CHAR,
    Kind.BINARY,
    Kind.TIME_OF_DAY,
)
# Whole numbers by which both sides can divide rows into the same buckets.
_KEYS = frozenset({Kind.INTEGER, Kind.UNSIGNED, Kind.YEAR})


def unlike(mine: Table, theirs: Table) -> list[str]:
    """Why the rows of these tables cannot be compared, in words; [] where they can. Names of columns are compared
    exactly, their order is not."""
    here, there = ({column.name: column for column in table.columns} for table in (mine, theirs))
    texts = [f"column {name} is not in the destination" for name in here if name not in there]
    texts += [f"column {name} of the destination is not in the source" for name in there if name not in here]
    return texts + [
        f"column {name} is {one.source_type} in the source and {there[name].source_type} in the destination: {why}"
        for name, one in here.items()
        if name in there and (why := _unlike(one, there[name], is_key=name in mine.key))
    ]


@dataclass(frozen=True, slots=True)
class PairedTable:
    """One table of a comparison: as each side is asked for it, and what both have in common."""

    common: Table
    source: Table
    destination: Table


def paired(mine: Table, theirs: Table) -> PairedTable:
    """The tables as both sides are asked for them. `unlike` has found nothing.

    The destination's columns stand in the order of the source's, under the source's key: a destination that holds a key
    twice shows that as a duplicate.
    """
    pairs = [_pair(one, theirs.column(one.name), is_key=one.name in mine.key) for one in mine.columns]
    return PairedTable(
        common=replace(mine, columns=tuple(_common(one, other) for one, other in pairs)),
        source=replace(mine, columns=tuple(one for one, _ in pairs)),
        destination=replace(theirs, columns=tuple(other for _, other in pairs), key=mine.key),
    )


def _pair(mine: Column, theirs: Column, *, is_key: bool) -> tuple[Column, Column]:
    # How a FLOAT is printed follows from its type: one side that prints it otherwise makes both inexact.
    if is_exact(mine) != is_exact(theirs):
        shown = theirs.source_type if is_exact(mine) else mine.source_type
        return replace(mine, source_type=shown), replace(theirs, source_type=shown)
    if is_key and mine.kind is not theirs.kind and mine.kind in _KEYS:
        return mine, replace(theirs, kind=mine.kind, length=mine.length)
    return mine, theirs


def _common(mine: Column, theirs: Column) -> Column:
    """What a value must be for both sides to hold it: of such are the breaks that the self-test plants."""
    found = {mine.kind, theirs.kind}
    kind = next((kind for kind in _NARROWEST if kind in found), mine.kind)
    lengths = [one.length for one in (mine, theirs) if one.kind is kind]
    precisions = [one.precision for one in (mine, theirs) if one.kind is kind]
    return replace(
        mine,
        kind=kind,
        length=min(lengths),
        precision=min(precisions),
        nullable=mine.nullable and theirs.nullable,
    )


def _unlike(mine: Column, theirs: Column, *, is_key: bool) -> str:
    """ "" where equal values have equal texts."""
    return next(_reasons(mine, theirs, is_key=is_key), "")


def _reasons(mine: Column, theirs: Column, *, is_key: bool) -> Iterator[str]:
    if _is_whole(mine) and _is_whole(theirs):
        are_plain = mine.kind in _KEYS and theirs.kind in {*_KEYS, Kind.DECIMAL}
        if is_key and mine.kind is not theirs.kind and not are_plain:
            yield "a key of both is an integer, or of one type"
        return
    if mine.kind is not theirs.kind and not any({mine.kind, theirs.kind} <= group for group in _ALIKE):
        yield f"{mine.kind.value} and {theirs.kind.value} have no common text"
    elif mine.kind is Kind.DECIMAL and (mine.scale, not mine.precision) != (theirs.scale, not theirs.precision):
        yield "a value has other decimals there, and nothing is rounded"
    elif mine.kind is Kind.NATIVE and mine.native != theirs.native:
        yield "they are two types of the server"


def _is_whole(column: Column) -> bool:
    is_whole_decimal = column.kind is Kind.DECIMAL and column.precision > 0 and column.scale == 0
    return column.kind in _WHOLE or is_whole_decimal
