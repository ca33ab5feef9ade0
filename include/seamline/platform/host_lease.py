"""HostLease: one stream host per pool. The lease's clock is the database's."""

import os
import secrets
import socket
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache

from seamline.adapters.process_identity import space, started_ticks
from seamline.domain.errors import Refused
from seamline.platform.database import Database, Session


class HostTaken(Refused):
    """Another stream host serves this pool."""

    exit_code = 4


class Ownership(StrEnum):
    MINE = "mine"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Holder:
    """A process, distinguished from a later one with the same number by its start time, and from one of another
    container by its `space`: "" where that is not known, as of a host of an earlier version."""

    machine: str
    process: int
    started: int
    space: str = ""

    def __str__(self) -> str:
        return "/".join([self.machine, str(self.process), str(self.started), *filter(None, [self.space])])

    @property
    def in_words(self) -> str:
        return f"{self.machine}, process {self.process}"


def this_process() -> Holder:
    return _holder(os.getpid())


def holder_of(text: str) -> Holder:
    machine, process, started, *space = text.split("/")
    return Holder(machine, int(process), int(started), *space)


def holds(holder: Holder, *, process: int) -> bool:
    """Whether it is this process of ours."""
    return holder.process == process and _is_of_here(holder) and started_ticks(process) == holder.started


def is_known_dead(holder: Holder) -> bool:
    """Whether the holder is known to have ended: only if this process would see it alive. Else the lease decides."""
    return _is_of_here(holder) and started_ticks(holder.process) != holder.started


def _is_of_here(holder: Holder) -> bool:
    return bool(holder.space) and (holder.machine, holder.space) == (socket.gethostname(), space())


@cache
def _holder(process: int) -> Holder:
    started, here = started_ticks(process), space()
    if started is None or not here:
        # Nobody can look for it; it must only never be taken for another one.
        started, here = secrets.randbits(48), ""
    return Holder(socket.gethostname(), process, started, here)


class PlatformHostLease:
    def __init__(self, database: Database, *, pool: str, holder: Holder, lease_s: float = 15.0) -> None:
        self._database = database
        self._pool = pool
        self._holder = holder
        self._lease_s = lease_s

    @property
    def holder(self) -> Holder:
        return self._holder

    def take(self) -> None:
        """HostTaken names the holder while its lease lives. A holder that is known to be dead is replaced at
        once: its streams' epochs are fenced by those of the new ones in any case."""

        def work(session: Session) -> tuple[str, datetime] | None:
            session.execute(
                "insert into host_lease (pool, holder, taken_at, renewed_at, expires_at)"
                " values (%s, '', now(), now(), now()) on conflict (pool) do nothing",
                (self._pool,),
            )
            # The row lock keeps two hosts that start at once apart.
            row = session.execute(
                "select holder, taken_at, expires_at > clock_timestamp() from host_lease where pool = %s for update",
                (self._pool,),
            ).fetchone()
            if row and row[2] and row[0] != str(self._holder) and not is_known_dead(holder_of(row[0])):
                return row[0], row[1]
            session.execute(
                "update host_lease set holder = %s, is_stopping = false, taken_at = clock_timestamp(),"
                " renewed_at = clock_timestamp(), expires_at = clock_timestamp() + make_interval(secs => %s)"
                " where pool = %s",
                (str(self._holder), self._lease_s, self._pool),
            )
            return None

        other = self._database.transact(work)
        if other is not None:
            raise HostTaken(
                f"the stream host of pool {self._pool} is {holder_of(other[0]).in_words},"
                f" since {other[1]:%Y-%m-%d %H:%M:%S %Z}",
                hint="one host serves a pool; stop that one first, or give this one another --pool",
            )

    def renew(self) -> Ownership:
        """MINE as long as nobody else took it, even after its end. TransientError: not known."""

        def work(session: Session) -> int:
            return session.execute(
                "update host_lease set renewed_at = clock_timestamp(),"
                " expires_at = clock_timestamp() + make_interval(secs => %s) where pool = %s and holder = %s",
                (self._lease_s, self._pool, str(self._holder)),
            ).rowcount

        return Ownership.MINE if self._database.transact(work) == 1 else Ownership.LOST

    def begin_stop(self) -> None:
        """Every stream of this host hears it and stops at its next END."""
        self._database.transact(
            lambda session: session.execute(
                "update host_lease set is_stopping = true where pool = %s and holder = %s",
                (self._pool, str(self._holder)),
            )
        )

    def release(self) -> None:
        """Let the next host start at once. The row stays, stopping: a stream that is still there must not go on."""
        self._database.transact(
            lambda session: session.execute(
                "update host_lease set expires_at = clock_timestamp(), is_stopping = true"
                " where pool = %s and holder = %s",
                (self._pool, str(self._holder)),
            )
        )
