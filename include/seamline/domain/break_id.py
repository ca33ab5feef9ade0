"""The identity of a break over dates and takes: the same row that differs in the same way has the same one each day."""

import hashlib
import hmac
import json

from seamline.domain.runs import Reconciliation
from seamline.domain.verdict import Break

_DIGITS = 16


def break_id(sync: str, destination: str, found: Break) -> str:
    """Sixteen lower-case hexadecimal digits: of a stored break those that it is stored with, of another one `plain_id`.

    Neither date, take nor values count, so that a break is followed from one day to the next. Copies of one row of a
    table without a key share one identity.
    """
    return found.identity or plain_id(sync, destination, found)


def plain_id(sync: str, destination: str, found: Break) -> str:
    """The first digits of the SHA-256 of the JSON list [sync, destination, table, type, key], in ASCII and without
    spaces. Breaks were stored with it before there was a key: whoever has it can try account numbers by it."""
    return hashlib.sha256(_about(sync, destination, found)).hexdigest()[:_DIGITS]


def keyed_id(secret: str, sync: str, destination: str, found: Break) -> str:
    """The first digits of the HMAC-SHA-256 of the same list: it says nothing to who has not the secret."""
    return hmac.new(secret.encode("ascii"), _about(sync, destination, found), hashlib.sha256).hexdigest()[:_DIGITS]


def _about(sync: str, destination: str, found: Break) -> bytes:
    about = [sync, destination, found.table, found.type.value, found.key]
    return json.dumps(about, separators=(",", ":")).encode("ascii")


def identities(found: Reconciliation) -> list[str]:
    """Those of all breaks that a comparison has listed."""
    return [break_id(found.sync, found.destination, one) for table in found.tables for one in table.breaks]
