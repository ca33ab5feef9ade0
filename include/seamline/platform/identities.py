"""The identity by which a break is stored: keyed, so that it gives no key of a row away, unless it is known by an older
one."""

from collections.abc import Sequence

from seamline.domain.break_id import keyed_id, plain_id
from seamline.domain.errors import InvariantViolated
from seamline.domain.verdict import Break
from seamline.platform.database import Session


def identities(session: Session, sync: str, destination: str, found: Sequence[Break]) -> list[str]:
    """Of each of these breaks. One that was stored before there was a secret keeps its identity for good: links to it,
    work on it and the log of acts name it by that."""
    row = session.execute("select secret, has_older from identity_secret").fetchone()
    if row is None:
        raise InvariantViolated("the platform database has no secret for identities of breaks", sync=sync)
    secret, has_older = row
    older = _older(session, [plain_id(sync, destination, one) for one in found]) if has_older else frozenset[str]()
    return [one.identity or _of(secret, sync, destination, one, older) for one in found]


def _of(secret: str, sync: str, destination: str, found: Break, older: frozenset[str]) -> str:
    plain = plain_id(sync, destination, found)
    return plain if plain in older else keyed_id(secret, sync, destination, found)


def _older(session: Session, names: Sequence[str]) -> frozenset[str]:
    known = session.execute("select break_id from break_work where break_id = any(%s)", (list(names),))
    return frozenset(str(name) for (name,) in known)
