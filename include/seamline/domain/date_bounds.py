"""Whether a row's business date lies within the bounds of a segment, by its canonical text."""

from datetime import date, datetime, timedelta

from seamline.domain.catalogue import TEXTS, Column, Kind
from seamline.domain.digest import Segment

_EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001 - canonical moments have no zone
_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1) // _MICROSECOND
_NUMBERS = frozenset({Kind.INTEGER, Kind.UNSIGNED})
_ENDS = {"infinity": float("inf"), "-infinity": float("-inf")}


def is_within(column: Column, text: str | None, segment: Segment) -> bool:
    """As a database decides it. A row without a date, or with one that no calendar has, is of no date."""
    if text is None:
        return False
    if column.kind in TEXTS:
        return text >= segment.date_from and not (segment.date_to and text >= segment.date_to)
    if column.kind in _NUMBERS:
        return int(text) >= int(segment.date_from) and not (segment.date_to and int(text) >= int(segment.date_to))
    moment = _moment_of(column, text)
    is_over = bool(segment.date_to) and moment >= _bound(segment.date_to)
    return moment >= _bound(segment.date_from) and not is_over


def _bound(literal: str) -> int:
    return (datetime.fromisoformat(literal) - _EPOCH) // _MICROSECOND


def _moment_of(column: Column, text: str) -> float:
    """Microseconds since the epoch."""
    if (end := _ENDS.get(text.lower())) is not None:
        return end
    if column.kind is not Kind.DATE:
        return float("-inf") if text.startswith("!") else int(text)
    if text.endswith("d"):
        return int(text[:-1]) * _DAY
    try:
        day = date.fromisoformat(text)
    except ValueError:
        return float("-inf")
    return (datetime(day.year, day.month, day.day) - _EPOCH) // _MICROSECOND  # noqa: DTZ001
