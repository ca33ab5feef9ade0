"""Cells as texts, for writers whose files hold texts. Pure."""

import unicodedata
from datetime import datetime, tzinfo
from decimal import Decimal

from seamline.domain.calendar import moment_in_words
from seamline.report.blocks import Cell

# Controls, formats (also those that turn the direction of a text), surrogates, and ends of lines and paragraphs.
_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def in_words(cell: Cell, zone: tzinfo) -> str:
    """Numbers with thousands apart and all their digits, moments in the zone; None is ""."""
    match cell:
        case None:
            return ""
        case datetime():
            return moment_in_words(cell, zone)
        case int():
            return f"{cell:,}"
        case Decimal():
            return f"{cell:,f}"
        case _:
            return visible(str(cell))


def visible(text: str) -> str:
    """The text with what cannot be seen written out as `\\u{1b}`: no value moves a cursor, ends a line or turns another
    text around."""
    return "".join(written_out(sign) if unicodedata.category(sign) in _UNSEEN else sign for sign in text)


def written_out(sign: str) -> str:
    return f"\\u{{{ord(sign):x}}}"


def clipped(text: str, longest: int) -> str:
    """At most so many signs, with the number of all of them where some are left out."""
    if len(text) <= longest:
        return text
    mark = f"… ({len(text):,} signs)"
    return f"{text[: max(longest - len(mark), 1)]}{mark}"
