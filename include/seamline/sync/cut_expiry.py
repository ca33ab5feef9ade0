"""Lets cuts end by `nightly.keep`, a date at a time; `domain.cut_keep` decides which."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from itertools import groupby
from typing import Protocol

from seamline.domain.cut_keep import KeptCut, expired
from seamline.domain.errors import Refused, TransientError
from seamline.plan.model import NightlyPlan
from seamline.ports.cuts import CutStore


class CutRecords(Protocol):
    """The platform database's list of cuts."""

    def drop_cuts(self, sync: str, destination: str, gone: Sequence[tuple[date, int]]) -> int:
        """Take these from the list; how many were on it. Reconciliations stay."""


@dataclass(slots=True)
class ExpiredCuts:
    """What became of the cuts of one sync in one destination. `left`: why a date that was to go has stayed."""

    dates: list[date] = field(default_factory=list)
    partitions: int = 0
    size_bytes: int = 0
    rows: int = 0
    kept: int = 0
    left: list[str] = field(default_factory=list)


def expire_cuts(
    sync: str, destination: str, nightly: NightlyPlan, *, store: CutStore, records: CutRecords
) -> ExpiredCuts:
    """Drop what has served its time, the oldest date first, and take what is gone from the platform's list.

    A date that somebody builds on stays and is named. Where readers do not let one go in time, the rest waits for the
    next hour: each attempt makes readers wait. A repeat goes on where this one stopped.
    """
    cuts, now = store.kept_cuts(sync)
    found = ExpiredCuts(kept=len({cut.business_date for cut in cuts}))
    for day, of_date in _by_date(expired(cuts, nightly.keep, now=now)):
        try:
            dropped = store.expire(sync, day, of_date)
        except Refused as exc:
            found.left.append(str(exc))
            continue
        except TransientError as exc:
            found.left.append(str(exc))
            break
        if dropped.partitions:
            found.dates.append(day)
        found.partitions += dropped.partitions
        found.size_bytes += dropped.size_bytes
    # All that ever expired: an earlier attempt may have ended between the two databases.
    found.rows = records.drop_cuts(sync, destination, store.expired(sync))
    return found


def _by_date(cuts: Sequence[KeptCut]) -> Iterator[tuple[date, list[KeptCut]]]:
    ordered = sorted(cuts, key=lambda one: one.business_date)
    return ((day, list(found)) for day, found in groupby(ordered, key=lambda one: one.business_date))
