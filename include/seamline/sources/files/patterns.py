"""Names of files with places for what changes from delivery to delivery. Pure.

`{date}` is the business date as 2026-11-27, `{date:%Y%m%d}` the same in another form, `{table}` the table's name in its
sync, and `{version}` the number of the delivery of a date.
"""

import re
from collections.abc import Sequence
from datetime import date
from pathlib import PurePosixPath

DATE, TABLE, VERSION = "date", "table", "version"
_FIELD = re.compile(r"\{([^{}:]*)(?::([^{}]*))?\}")
_FORMS = re.compile(r"([^%]|%[YymdjHMS%])+")


def fault_of(pattern: str, *, fields: Sequence[str]) -> str:
    """Why this is no name of a file with these places; "" where it is."""
    rest = _FIELD.sub("", pattern)
    if "{" in rest or "}" in rest:
        return "a place is written {date}, {date:%Y%m%d}, {table} or {version}"
    for name, form in _FIELD.findall(pattern):
        if name not in fields:
            return f"{{{name}}} has no meaning here: there are {', '.join(f'{{{one}}}' for one in fields)}"
        if form and (name != DATE or not _FORMS.fullmatch(form)):
            return f"{{{name}:{form}}}: only a date has a form, of %Y, %m, %d, %y and %j"
    parts = PurePosixPath(rest.replace("\\", "/")).parts
    if pattern.startswith("/") or ".." in parts or not rest.isprintable():
        return "a path below `location`: no `/` in front and no `..`"
    return ""


def has(pattern: str, field: str) -> bool:
    return any(name == field for name, _ in _FIELD.findall(pattern))


def filled(pattern: str, *, business_date: date, table: str = "", version: int = 0) -> str:
    def value(found: re.Match[str]) -> str:
        if found[1] == DATE:
            return business_date.strftime(found[2]) if found[2] else business_date.isoformat()
        return table if found[1] == TABLE else str(version)

    return _FIELD.sub(value, pattern)


def numbered(name: str, business_date: date) -> re.Pattern[str]:
    """Of a name with one `{version}`: what finds its number."""
    before, after = name.split(f"{{{VERSION}}}")
    texts = (re.escape(filled(one, business_date=business_date)) for one in (before, after))
    return re.compile(r"(\d+)".join(texts))


def dated(name: str) -> re.Pattern[str]:
    """What finds the names that some date and version give."""
    last = 0
    parts = list[str]()
    for found in _FIELD.finditer(name):
        parts += [re.escape(name[last : found.start()]), r".+"]
        last = found.end()
    return re.compile("".join([*parts, re.escape(name[last:])]))
