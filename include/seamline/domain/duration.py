"""A length of time in words. Pure."""

from datetime import timedelta

from seamline.domain.phrase import phrase


def duration(length: timedelta | None) -> str:
    """Rounded, for people: `40 s`, `12 min`, `3 h 20 min`."""
    seconds = round(length.total_seconds()) if length is not None else 0
    if seconds < 90:  # noqa: PLR2004 (below that, minutes say too little)
        return phrase("%(seconds)s s", seconds=seconds)
    hours, minutes = divmod(round(seconds / 60), 60)
    if not hours:
        return phrase("%(minutes)s min", minutes=minutes)
    return phrase("%(hours)s h %(minutes)s min", hours=hours, minutes=minutes)
