"""Sessions that read inside consistent snapshots, in what MariaDB and MySQL have in common."""

from collections.abc import Sequence
from contextlib import suppress
from enum import StrEnum
from typing import Any

import pymysql

from seamline.databases.mysql.client import Session, query
from seamline.domain.errors import Refused

BEGIN_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"


class SnapshotLock(StrEnum):
    """What the source's owner allows: no lock at all, or commits held for at most 200 ms."""

    NONE = "none"
    BRIEF = "brief"


class NeverTogether(Refused):
    """The sessions of a read did not come to stand at one position."""


def begin(sessions: Sequence["Session[Any]"]) -> None:
    """Open a snapshot in every session."""
    for session in sessions:
        query(session, BEGIN_SNAPSHOT)


def close_all(sessions: Sequence["Session[Any]"]) -> None:
    for session in sessions:
        with suppress(pymysql.err.Error):
            session.close()
