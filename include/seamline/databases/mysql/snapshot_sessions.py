"""Sessions that read inside consistent snapshots, in what MariaDB and MySQL have in common."""

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from enum import StrEnum
from typing import Any

import pymysql

from seamline.databases.mysql.client import Session, query
from seamline.domain.errors import Refused
from seamline.domain.position import Position

BEGIN_SNAPSHOT = "START TRANSACTION WITH CONSISTENT SNAPSHOT"
# How long sessions have to open while commits stand still, from the moment at which they do.
HELD_MAX_S = 0.15
# Commits go on for longer than they have waited.
PAUSE_S = 0.3


class SnapshotLock(StrEnum):
    """What the source's owner allows: no lock at all, or commits held for at most 200 ms."""

    NONE = "none"
    BRIEF = "brief"


class NeverTogether(Refused):
    """The sessions of a read did not come to stand at one position."""


class Snapshots(ABC):
    """How the sessions of a server come to stand at one position, under the lock that its owner allows.

    `before`, `after`: what a session in another process executes around its snapshot, so that the expression `proof`
    says where that stands: the text of the position's `proof_of`, another one where it is not certain, the same at any
    later time of its transaction. `lasts`: it proves this by itself, so also where it was opened after `held`.
    `stands_still`: what the lock does to others.
    """

    lock: SnapshotLock
    attempts_max: int
    before: Sequence[str] = ()
    after: Sequence[str]
    proof: str
    lasts: bool
    stands_still: str

    @abstractmethod
    def held(self, sessions: int) -> AbstractContextManager[None]:
        """Where the owner allows it and so many sessions need it, no transaction is committed inside."""

    def begin(self, sessions: "Sequence[Session[Any]]") -> None:
        """Open a snapshot in each, while `held`."""
        begin(sessions)

    @abstractmethod
    def position(self, sessions: "Sequence[Session[Any]]") -> Position | None:
        """Where they stand, asked when `held` is over; None where it is not one position, or not certain."""

    @abstractmethod
    def proof_of(self, position: Position) -> str: ...


def begin(sessions: Sequence["Session[Any]"]) -> None:
    """Open a snapshot in every session."""
    for session in sessions:
        query(session, BEGIN_SNAPSHOT)


def bring_together(sessions: Sequence["Session[Any]"], snapshots: Snapshots) -> Position:
    """Snapshots of all sessions at one position; bounded, then Refused with the cure."""
    for _ in range(snapshots.attempts_max):
        with snapshots.held(len(sessions)):
            snapshots.begin(sessions)
        position = snapshots.position(sessions)
        if position is not None:
            return position
        if snapshots.lock is SnapshotLock.BRIEF:
            time.sleep(PAUSE_S)
    raise never_together(snapshots, len(sessions), attempts=snapshots.attempts_max)


def never_together(snapshots: Snapshots, count: int, *, attempts: int) -> NeverTogether:
    cure = f"allow `snapshot: {{lock: brief}}` for this source ({snapshots.stands_still} for a few milliseconds)"
    if snapshots.lock is SnapshotLock.BRIEF:
        cure = f"is the link to it slow? While commits stand still the sessions have {1000 * HELD_MAX_S:g} ms to open"
    return NeverTogether(
        f"{count} sessions did not come to stand at one binlog position in {attempts} attempts: the source commits"
        " too often",
        hint=f"{cure}; or read at a quieter hour, or with fewer task slots: each has a session of its own; or onboard a"
        " few of the tables and add the others with `<sync>__tables`, each at a position of its own",
    )


def close_all(sessions: Sequence["Session[Any]"]) -> None:
    for session in sessions:
        with suppress(pymysql.err.Error):
            session.close()
