"""For whose sake a log is kept that fills up: that of a read, of what this read moves on, or of somebody else. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import Follower
from seamline.domain.log_floor import LogHold
from seamline.domain.reading_pace import LogPressure, Rate
from seamline.domain.runs import RunKind


def held_for_load(run_id: str) -> str:
    """How the name of a hold begins that the next attempt of this load needs."""
    return f"the load of {run_id} into "


def held_for_cuts(sync: str) -> str:
    """How the name of a hold begins that the next cut of this sync needs."""
    return f"the cuts of {sync} in "


def held_for_cut(run_id: str) -> str:
    """How the name of a hold begins that this run's own cut needs."""
    return f"the cut of {run_id} in "


def held_unpublished(run_id: str) -> str:
    """The name of what a run keeps that has read its tables, and has not published them."""
    return f"the unpublished run {run_id}"


@dataclass(frozen=True, slots=True)
class LogUser:
    """A run that reads. `sync`, `destinations` and `kind` are of its plan; "", none and None where nobody knows it."""

    run_id: str
    sync: str = ""
    destinations: frozenset[str] = frozenset()
    kind: RunKind | None = None

    def keeps(self, hold: LogHold) -> bool:
        """Whether the hold ends with this run."""
        of_run = (self.run_id, held_unpublished(self.run_id))
        return hold.holder in of_run or hold.holder.startswith(held_for_load(self.run_id))

    def moves(self, hold: LogHold) -> bool:
        """Whether the hold is moved on once this run is through, and stays where it is if it ends before."""
        return self.kind is RunKind.NIGHTLY and hold.holder.startswith(
            (held_for_cuts(self.sync), held_for_cut(self.run_id))
        )

    def replaces(self, stream: StreamId) -> bool:
        """Whether the stream begins anew behind what this run loads."""
        return self.kind is RunKind.ONBOARD and stream.sync == self.sync and stream.destination in self.destinations


def pressure_on(
    user: LogUser, rate: Rate, why: str, *, followers: Sequence[Follower], holds: Sequence[LogHold]
) -> LogPressure | None:
    """What the capture's state (`rate`, `why`) means for this run. None where it means nothing for it: nobody needs the
    log, or what needs its oldest records is moved on by this very run.

    `holds`: the living ones, this run's too.
    """
    own = min((one.next_offset for one in holds if user.keeps(one)), default=None)
    # The marker that an onboarding begins with comes through the log: until then it waits for the capture like others.
    needs_capture = own is None and rate is Rate.WAITS
    others = [one.next_offset for one in holds if not (user.keeps(one) or user.moves(one))]
    others += [one.next_offset for one in followers if needs_capture or not user.replaces(one.stream)]
    moved = [one.next_offset for one in holds if user.moves(one)]
    moved += [one.next_offset for one in followers if user.replaces(one.stream)]
    if own is None:
        return LogPressure(rate, why) if others and min(others) <= min([*moved, *others]) else None
    if min(others, default=own) < own:
        return LogPressure(rate, why)
    if min(moved, default=own) < own:
        return None
    return LogPressure(rate, why, is_ours=True)
