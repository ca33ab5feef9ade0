"""The snapshot barrier: sessions in several processes open their snapshots at one position of the binlog.

A coordinator and participants talk through user locks of the source itself, named with a token of the run. These need
no grant, no port and no clean-up, and a side that dies lets go of its locks. Attempt by attempt:

    participant  Its session takes `ready`, waits for `open`, opens its snapshot and takes `at-<its proof>`. The
                 participant takes `answer`, waits for `decide` and looks whether `good` is held.
    coordinator  It waits until all are ready; (brief: it holds the commits;) it lets go of `open` and opens its own
                 sessions; it waits for the answers; (it lets the commits go;) it takes `good` if all proofs are its
                 own; it lets go of `decide`.

Sessions are connected before commits stand still; inside only the snapshots are opened.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S
from seamline.databases.mysql.canonical import text_literal
from seamline.databases.mysql.client import Server, Session, query
from seamline.databases.mysql.snapshot_sessions import (
    BEGIN_SNAPSHOT,
    HELD_MAX_S,
    PAUSE_S,
    SnapshotLock,
    Snapshots,
    never_together,
)
from seamline.domain.errors import TransientError
from seamline.domain.position import Position

ATTEMPTS_MAX = 60
# A participant that found no slot within this time never comes; a coordinator that says nothing for this long is gone.
ARRIVAL_S = 180.0
_ANSWER_S = 5.0
_LOOK_EVERY_S = 0.002
_AT_DIGITS = 12


class BarrierLocks:
    """The names of one barrier's locks, at most 64 characters whatever the run id, and a session's part in it."""

    def __init__(self, run: str) -> None:
        self._token = hashlib.sha256(run.encode()).hexdigest()[:16]

    def name(self, what: str, *, attempt: int, participant: int = 0) -> str:
        return f"seamline.{self._token}.{attempt}.{participant}.{what}"

    def at(self, proof: str, *, attempt: int, participant: int) -> str:
        digest = hashlib.sha256(proof.encode()).hexdigest()[:_AT_DIGITS]
        return self.name(f"at-{digest}", attempt=attempt, participant=participant)

    def opening(self, snapshots: Snapshots, *, attempt: int, participant: int) -> Sequence[str]:
        """Statements of a participant's session: it arrives, waits, opens its snapshot and publishes its proof."""
        ready, gate, at = (
            text_literal(self.name(what, attempt=attempt, participant=participant)) for what in ("ready", "open", "at-")
        )
        digest = f"LEFT(SHA2({snapshots.proof},256),{_AT_DIGITS})"
        return (
            f"DO GET_LOCK({ready},0)",
            f"DO GET_LOCK({gate},{ARRIVAL_S})",
            *snapshots.before,
            BEGIN_SNAPSHOT,
            *snapshots.after,
            f"DO GET_LOCK(CONCAT({at},{digest}),0)",
        )


def take(session: "Session[Any]", name: str, *, patience_s: float = 0.0) -> bool:
    ((taken,),) = query(session, f"SELECT GET_LOCK({text_literal(name)}, {patience_s})")
    return bool(taken)


def let_go(session: "Session[Any]", name: str) -> None:
    query(session, f"DO RELEASE_LOCK({text_literal(name)})")


def used(session: "Session[Any]", names: Sequence[str]) -> int:
    """How many of these locks somebody holds."""
    parts = "+".join(f"(IS_USED_LOCK({text_literal(name)}) IS NOT NULL)" for name in names)
    ((count,),) = query(session, f"SELECT {parts or '0'}")
    return int(count)


class Coordinator:
    """Use as a context from *before* the participants start, so that they find its locks taken, and until they have
    ended: a participant that looks late must still find `good` held.

    `sessions` are its own, at least one. `held_s` says how long all sessions took to open in the attempt that
    succeeded, while commits stood still or, of a longer one, for a part of it; `attempts` how many it took.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        server: Server,
        snapshots: Snapshots,
        locks: BarrierLocks,
        participants: int,
        sessions: Sequence["Session[Any]"],
    ) -> None:
        self._connection = connection
        self._server = server
        self._snapshots = snapshots
        self._locks = locks
        self._participants = range(participants)
        self._sessions = sessions
        self._count = len(sessions) + participants
        self._control = server.open_session(connection, limit_s=QUESTION_S)
        self.held_s = 0.0
        self.attempts = 0

    def __enter__(self) -> "Coordinator":
        self._take_locks(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Participants that still wait get their locks, find nothing decided, and give up.
        self._control.close()

    def open_at_barrier(self, *, is_alive: Callable[[], bool]) -> Position:
        """The one position of all sessions, also of the participants'. `is_alive` False: the participants are gone."""
        try:
            for attempt in range(ATTEMPTS_MAX):
                self.attempts = attempt + 1
                self._wait_for_all(attempt, is_alive)
                position = self._open(attempt)
                if position is not None:
                    self._take("good", attempt)
                else:
                    self._take_locks(attempt + 1)
                for participant in self._participants:
                    let_go(self._control, self._locks.name("decide", attempt=attempt, participant=participant))
                if position is not None:
                    return position
                if self._snapshots.lock is SnapshotLock.BRIEF:
                    time.sleep(PAUSE_S)
        except pymysql.err.MySQLError as exc:
            raise self._server.translated(exc, self._connection) from exc
        raise never_together(self._snapshots, self._count, attempts=ATTEMPTS_MAX)

    def _open(self, attempt: int) -> Position | None:
        """One attempt; None where the sessions stand at different positions, or a participant does not answer."""
        is_brief = self._snapshots.lock is SnapshotLock.BRIEF
        with self._snapshots.held(self._count):
            since = time.monotonic()
            for participant in self._participants:
                let_go(self._control, self._locks.name("open", attempt=attempt, participant=participant))
            self._snapshots.begin(self._sessions)
            have_answered = self._have_answered(attempt, until=since + (HELD_MAX_S if is_brief else _ANSWER_S))
            self.held_s = time.monotonic() - since
        # Who was slow to answer has perhaps opened in time.
        is_in_time = self._have_answered(attempt, until=since + _ANSWER_S) if self._snapshots.lasts else have_answered
        position = self._snapshots.position(self._sessions)
        if position is None or not is_in_time:
            return None
        proof = self._snapshots.proof_of(position)
        proofs = [self._locks.at(proof, attempt=attempt, participant=number) for number in self._participants]
        return position if used(self._control, proofs) == len(proofs) else None

    def _have_answered(self, attempt: int, *, until: float) -> bool:
        answers = [
            self._locks.name("answer", attempt=attempt, participant=participant) for participant in self._participants
        ]
        while used(self._control, answers) < len(answers):
            if time.monotonic() > until:
                return False
            time.sleep(_LOOK_EVERY_S)
        return True

    def _wait_for_all(self, attempt: int, is_alive: Callable[[], bool]) -> None:
        ready = [
            self._locks.name("ready", attempt=attempt, participant=participant) for participant in self._participants
        ]
        deadline = time.monotonic() + ARRIVAL_S
        while (arrived := used(self._control, ready)) < len(ready):
            if not is_alive():
                raise TransientError("the readers ended before they had opened their sessions")
            if time.monotonic() > deadline:
                raise TransientError(
                    f"{arrived} of {len(ready)} readers arrived within {ARRIVAL_S:g} s",
                    hint="has Spark that many free slots? Every reader needs one at the same time",
                )
            time.sleep(_LOOK_EVERY_S * 5)

    def _take_locks(self, attempt: int) -> None:
        for participant in self._participants:
            for what in ("open", "decide"):
                if not take(self._control, self._locks.name(what, attempt=attempt, participant=participant)):
                    raise TransientError("another attempt of this run is reading just now", hint="wait for it to end")

    def _take(self, what: str, attempt: int) -> None:
        take(self._control, self._locks.name(what, attempt=attempt))


class Participant:
    """The readers' side: `session` is its control session, which opens no snapshot itself."""

    def __init__(self, session: "Session[Any]", *, locks: BarrierLocks, number: int) -> None:
        self._session = session
        self._locks = locks
        self._number = number

    def open_at_barrier(self, *, open_all: Callable[[int], None], close_all: Callable[[], None]) -> None:
        """Open all sessions (`open_all(attempt)`) again and again until the coordinator has found them together."""
        for attempt in range(ATTEMPTS_MAX):
            open_all(attempt)
            take(self._session, self._locks.name("answer", attempt=attempt, participant=self._number))
            gate = self._locks.name("decide", attempt=attempt, participant=self._number)
            if not take(self._session, gate, patience_s=ARRIVAL_S):
                break
            if used(self._session, [self._locks.name("good", attempt=attempt)]):
                return
            close_all()
        raise TransientError("the coordinator of this read ended before all sessions stood together")
