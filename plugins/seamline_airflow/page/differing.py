"""Two texts side by side, with what differs between them set apart. Pure."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher

# Longer middles are set apart whole: to compare them sign by sign takes the square of their length.
_COMPARED_MAX = 500


@dataclass(frozen=True, slots=True)
class Piece:
    text: str
    differs: bool


@dataclass(frozen=True, slots=True)
class Pair:
    """One column of a row. A side is None where it has no such row, and has `is_null` where its value is NULL."""

    column: str
    source: tuple[Piece, ...] | None
    destination: tuple[Piece, ...] | None
    source_is_null: bool = False
    destination_is_null: bool = False


def pairs(source: Mapping[str, str | None] | None, destination: Mapping[str, str | None] | None) -> list[Pair]:
    """A pair for each column that either side has, in the order in which they have them; at least one."""
    columns = dict.fromkeys([*(source or {}), *(destination or {})]) or {"": None}
    return [_pair(column, source, destination) for column in columns]


def _pair(column: str, source: Mapping[str, str | None] | None, destination: Mapping[str, str | None] | None) -> Pair:
    mine, theirs = (None if side is None else side.get(column) for side in (source, destination))
    left, right = pieces(mine, theirs) if mine is not None and theirs is not None else (_whole(mine), _whole(theirs))
    return Pair(
        column,
        None if source is None else left,
        None if destination is None else right,
        source_is_null=source is not None and mine is None,
        destination_is_null=destination is not None and theirs is None,
    )


def pieces(mine: str, theirs: str) -> tuple[tuple[Piece, ...], tuple[Piece, ...]]:
    """Both texts, cut where they begin and cease to differ."""
    head = _shared(mine, theirs)
    tail = min(_shared(mine[::-1], theirs[::-1]), min(len(mine), len(theirs)) - head)
    middles = mine[head : len(mine) - tail], theirs[head : len(theirs) - tail]
    left, right = (list(side) for side in zip(*_middle(*middles), strict=True)) if any(middles) else ([], [])
    begin, end = mine[:head], mine[len(mine) - tail :]
    return _joined(begin, left, end), _joined(begin, right, end)


def _middle(mine: str, theirs: str) -> Iterator[tuple[Piece, Piece]]:
    if max(len(mine), len(theirs)) > _COMPARED_MAX:
        yield Piece(mine, differs=True), Piece(theirs, differs=True)
        return
    for what, from_mine, to_mine, from_theirs, to_theirs in SequenceMatcher(
        None, mine, theirs, autojunk=False
    ).get_opcodes():
        differs = what != "equal"
        yield Piece(mine[from_mine:to_mine], differs), Piece(theirs[from_theirs:to_theirs], differs)


def _joined(begin: str, middle: list[Piece], end: str) -> tuple[Piece, ...]:
    whole = [Piece(begin, differs=False), *middle, Piece(end, differs=False)]
    return tuple(piece for piece in whole if piece.text)


def _shared(one: str, other: str) -> int:
    """How many signs both begin with."""
    length = 0
    for length, (mine, theirs) in enumerate(zip(one, other, strict=False)):
        if mine != theirs:
            return length
    return min(len(one), len(other)) if one and other else 0


def _whole(text: str | None) -> tuple[Piece, ...]:
    return (Piece(text, differs=False),) if text else ()
