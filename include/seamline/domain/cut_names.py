"""The names that the cuts of a table take beside the table's own.

`<schema>_cut.<table>` holds all cuts, one partition per date and version. Three views lie over it: two in the schema of
the cuts, one beside the live table.
"""

import hashlib
import re
from datetime import date

from seamline.domain.catalogue import NAME_BYTES_MAX

DATE_COLUMN = "cut_business_date"
VERSION_COLUMN = "cut_version"
CUT_COLUMNS = (DATE_COLUMN, VERSION_COLUMN)
# Of the view of changes: what happened to a row, and the cut that it is held against.
SINCE_COLUMNS = ("cut_change", "cut_since", "cut_since_version")
# Of a table whose cuts are stored as versions: the number of the first cut that has a row, and of the first that has it
# no more.
VALID_FROM, VALID_TO = "cut_valid_from", "cut_valid_to"
# `VALID_TO` of a row that the newest cut has.
STILL_VALID = 2**63 - 1
OWN_COLUMNS = (*CUT_COLUMNS, *SINCE_COLUMNS, VALID_FROM, VALID_TO)
_TAG = re.compile(r"cut_(?P<date>[0-9]{4}_[0-9]{2}_[0-9]{2})_v(?P<version>[0-9]+)")
_PARTITION = re.compile(r"(?P<table>.+)_[0-9]{8}_v[0-9]+", re.DOTALL)


def tag_of(business_date: date, version: int) -> str:
    """What names one version of a date: the tag that each table of a lake has, and how people ask for it."""
    return f"cut_{business_date:%Y_%m_%d}_v{version}"


def is_tag(text: str) -> bool:
    return _TAG.fullmatch(text) is not None


def cut_of_tag(tag: str) -> tuple[date, int]:
    """The inverse of `tag_of`. ValueError: it names no date."""
    found = _TAG.fullmatch(tag)
    if found is None:
        raise ValueError(f"{tag!r} is no tag of a cut")
    return date.fromisoformat(found["date"].replace("_", "-")), int(found["version"])


def current_view(table: str) -> str:
    """In the schema of the cuts: those that count."""
    return fitted(f"{table}_current")


def proven_view(table: str) -> str:
    """In the schema of the live tables: the newest cut that reconciled or that a person signed."""
    return fitted(f"{table}_proven")


def changes_view(table: str) -> str:
    """In the schema of the cuts: what differs between two of them."""
    return fitted(f"{table}_cut_changes")


def partition_name(table: str, business_date: date, version: int) -> str:
    return fitted(f"{table}_{business_date:%Y%m%d}_v{version}")


def rows_table(table: str, number: int) -> str:
    """Of cuts that are stored as versions: the table that holds their rows, and how many such came before it."""
    return fitted(f"{table}__rows_{number}")


def table_of_partition(name: str) -> str:
    """The table whose partition could have this name; "" where none could."""
    match = _PARTITION.fullmatch(name)
    return match["table"] if match else ""


def fitted(wanted: str) -> str:
    """PostgreSQL cuts a long name silently; two long ones must stay apart."""
    if len(wanted.encode()) <= NAME_BYTES_MAX:
        return wanted
    return f"{wanted.encode()[:50].decode(errors='ignore')}~{hashlib.sha256(wanted.encode()).hexdigest()[:8]}"
