"""The identity of a break over dates and takes: the same row that differs in the same way has the same one each day."""

import hashlib
import json

from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Break

_DIGITS = 16


def break_id(sync: str, destination: str, found: Break) -> str:
    """Sixteen lower-case hexadecimal digits: the first of the SHA-256 of the JSON list [sync, destination, table, type,
    key], in ASCII and without spaces.

    Neither date, take nor values count, so that a break is followed from one day to the next. Copies of one row of a
    table without a key share one identity.
    """
    if found.identity:
        return found.identity
    about = [sync, destination, found.table, found.type.value, found.key]
    return hashlib.sha256(json.dumps(about, separators=(",", ":")).encode("ascii")).hexdigest()[:_DIGITS]


def identities(found: Reconciliation) -> list[str]:
    """Those of all breaks that a comparison has listed."""
    return [break_id(found.sync, found.destination, one) for table in found.tables for one in table.breaks]
