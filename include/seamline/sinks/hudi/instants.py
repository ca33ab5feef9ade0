"""Instants: how Hudi names commits, by a moment in milliseconds, as 20261128110634635."""

from datetime import UTC, datetime, timedelta

_DIGITS = 17
_MILLISECOND = timedelta(milliseconds=1)


def now() -> int:
    return _instant(datetime.now(UTC))


def next_after(instant: int) -> int:
    """The present moment, or the millisecond after that instant where the clock is behind it."""
    present = now()
    return present if present > instant else _instant(_moment(instant) + _MILLISECOND)


def text_of(instant: int) -> str:
    return f"{instant:0{_DIGITS}d}"


def _instant(moment: datetime) -> int:
    return int(f"{moment:%Y%m%d%H%M%S}{moment.microsecond // 1000:03d}")


def _moment(instant: int) -> datetime:
    text = text_of(instant)
    return datetime.strptime(f"{text[:-3]}{text[-3:]}000+0000", "%Y%m%d%H%M%S%f%z")
