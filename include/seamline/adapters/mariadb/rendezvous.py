"""Sessions in several processes opened at one binlog address: a coordinator, and members who wait at its gates.

Everything is said through user locks of the source itself, named with a token of the run: they need no grant, no port
and no clean-up, and a side that dies lets go of its locks. Turn by turn:

    member       its first session takes `ready` and waits at gate `open`, then opens its snapshot, and so do its other
                 sessions; each takes `at-<its address>`; the member takes `answer`, waits at gate `decide` and looks
                 whether `good` is held
    coordinator  waits until all are ready; (brief: holds the commits;) lets go of `open` and opens its own sessions;
                 waits for the answers; (lets the commits go;) takes `good` if all addresses are its own; lets go of
                 `decide`

Sessions are connected before commits stand still; inside only the snapshots are opened.
"""

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from types import TracebackType
from typing import Any

import pymysql

from seamline.adapters.connections import Connection
from seamline.adapters.hanging import QUESTION_S
from seamline.adapters.mariadb import client
from seamline.adapters.mariadb.canonical import text_literal
from seamline.adapters.mariadb.sessions import (
    ADDRESS_TEXT,
    ATTEMPTS_MAX,
    HELD_MAX_S,
    PAUSE_S,
    READ_ADDRESS,
    Address,
    Session,
    SnapshotLock,
    begin,
    commits_held,
    common_address,
    never_together,
)
from seamline.domain.errors import TransientError

# A member that found no slot within this time never comes; a coordinator that says nothing for this long is gone.
ARRIVAL_S = 180.0
_ANSWER_S = 5.0
_LOOK_EVERY_S = 0.002
_AT_DIGITS = 12


class Gates:
    """The names of one rendezvous' locks, at most 64 characters whatever the run id, and a session's part in it."""

    def __init__(self, run: str) -> None:
        self._token = hashlib.sha256(run.encode()).hexdigest()[:16]

    def name(self, what: str, *, turn: int, member: int = 0) -> str:
        return f"seamline.{self._token}.{turn}.{member}.{what}"

    def at(self, address: Address, *, turn: int, session: int) -> str:
        digest = hashlib.sha256(str(address).encode()).hexdigest()[:_AT_DIGITS]
        return self.name(f"at-{digest}", turn=turn, member=session)

    def arrive(self, *, turn: int, member: int) -> tuple[str, ...]:
        """Statements of a member's first session before its snapshot."""
        ready, gate = (text_literal(self.name(what, turn=turn, member=member)) for what in ("ready", "open"))
        return f"DO GET_LOCK({ready},0)", f"DO GET_LOCK({gate},{ARRIVAL_S})"

    def tell_address(self, *, turn: int, session: int) -> tuple[str, ...]:
        """Statements by which an open snapshot says where it stands; `session` counts over all members."""
        digest = f"LEFT(SHA2({ADDRESS_TEXT},256),{_AT_DIGITS})"
        tell = f"DO GET_LOCK(CONCAT({text_literal(self.name('at-', turn=turn, member=session))},{digest}),0)"
        return READ_ADDRESS, tell


def take(session: "Session[Any]", name: str, *, patience_s: float = 0.0) -> bool:
    ((taken,),) = client.query(session, f"SELECT GET_LOCK({text_literal(name)}, {patience_s})")
    return bool(taken)


def let_go(session: "Session[Any]", name: str) -> None:
    client.query(session, f"DO RELEASE_LOCK({text_literal(name)})")


def used(session: "Session[Any]", names: Sequence[str]) -> int:
    """How many of these locks somebody holds."""
    parts = "+".join(f"(IS_USED_LOCK({text_literal(name)}) IS NOT NULL)" for name in names)
    ((count,),) = client.query(session, f"SELECT {parts or '0'}")
    return int(count)


class Coordinator:
    """Use as a context from *before* the members start, so that they find its gates closed, and until they have ended:
    a member that looks late must still find `good` held.

    `sessions` are its own, at least one; `readers` is the number of sessions of all members together. `held_s` tells
    how long all sessions took to open in the turn that succeeded, while commits stood still or, of a longer one, for a
    part of it; `turns` how many it took.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        gates: Gates,
        members: int,
        readers: int,
        lock: SnapshotLock,
        sessions: Sequence["Session[Any]"],
    ) -> None:
        self._connection = connection
        self._gates = gates
        self._members = range(members)
        self._readers = range(readers)
        self._lock = lock
        self._sessions = sessions
        self._control = client.open_session(connection, limit_s=QUESTION_S)
        self.held_s = 0.0
        self.turns = 0

    def __enter__(self) -> "Coordinator":
        self._close_gates(0)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # Members that still wait find their gates open and nothing decided, and give up.
        self._control.close()

    def meet(self, *, is_alive: Callable[[], bool]) -> Address:
        """The one address of all sessions, here and at the members. `is_alive` False: the members are gone."""
        try:
            for turn in range(ATTEMPTS_MAX):
                self.turns = turn + 1
                self._wait_for_all(turn, is_alive)
                address = self._open(turn)
                if address is not None:
                    self._take("good", turn)
                else:
                    self._close_gates(turn + 1)
                for member in self._members:
                    let_go(self._control, self._gates.name("decide", turn=turn, member=member))
                if address is not None:
                    return address
                if self._lock is SnapshotLock.BRIEF:
                    time.sleep(PAUSE_S)
        except pymysql.err.MySQLError as exc:
            raise client.translated(exc, self._connection) from exc
        raise never_together(self._lock, len(self._sessions) + len(self._readers))

    def _open(self, turn: int) -> Address | None:
        """One attempt; None where the sessions stand at different addresses, or a member does not answer."""
        is_brief = self._lock is SnapshotLock.BRIEF
        with commits_held(self._connection) if is_brief else nullcontext(time.monotonic()) as since:
            for member in self._members:
                let_go(self._control, self._gates.name("open", turn=turn, member=member))
            begin(self._sessions)
            self._wait_for_answers(turn, until=since + (HELD_MAX_S if is_brief else _ANSWER_S))
            self.held_s = time.monotonic() - since
        # Who was slow to answer has perhaps opened in time.
        self._wait_for_answers(turn, until=since + _ANSWER_S)
        address = common_address(self._sessions)
        if address is None:
            return None
        proofs = [self._gates.at(address, turn=turn, session=reader) for reader in self._readers]
        return address if used(self._control, proofs) == len(proofs) else None

    def _wait_for_answers(self, turn: int, *, until: float) -> None:
        answers = [self._gates.name("answer", turn=turn, member=member) for member in self._members]
        while used(self._control, answers) < len(answers) and time.monotonic() < until:
            time.sleep(_LOOK_EVERY_S)

    def _wait_for_all(self, turn: int, is_alive: Callable[[], bool]) -> None:
        ready = [self._gates.name("ready", turn=turn, member=member) for member in self._members]
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

    def _close_gates(self, turn: int) -> None:
        for member in self._members:
            for what in ("open", "decide"):
                if not take(self._control, self._gates.name(what, turn=turn, member=member)):
                    raise TransientError("another attempt of this run is reading just now", hint="wait for it to end")

    def _take(self, what: str, turn: int) -> None:
        take(self._control, self._gates.name(what, turn=turn))


class Member:
    """The readers' side: `session` is its control session, which opens no snapshot itself."""

    def __init__(self, session: "Session[Any]", *, gates: Gates, number: int) -> None:
        self._session = session
        self._gates = gates
        self._number = number

    def meet(self, *, open_all: Callable[[int], None], close_all: Callable[[], None]) -> None:
        """Open all sessions turn by turn (`open_all(turn)`) until the coordinator says that all stand together."""
        for turn in range(ATTEMPTS_MAX):
            open_all(turn)
            take(self._session, self._gates.name("answer", turn=turn, member=self._number))
            gate = self._gates.name("decide", turn=turn, member=self._number)
            if not take(self._session, gate, patience_s=ARRIVAL_S):
                break
            if used(self._session, [self._gates.name("good", turn=turn)]):
                return
            close_all()
        raise TransientError("the coordinator of this read ended before all sessions stood together")
