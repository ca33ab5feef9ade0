"""What runs of cuts from the log keep of it: each what it needs, and what the next night begins with."""

from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any

from seamline.bulk.log_cut import HOLD_S, RUN_HOLD_S, hold
from seamline.domain.runs import RunKind, RunState
from seamline.plan.model import Run
from tests.log_topic import sync_plan

NIGHTLY = Run("night", "settlement", RunKind.NIGHTLY, date(2026, 3, 5), sync_plan(), RunState.RUNNING, {})
BACKFILL = replace(NIGHTLY, run_id="backfill", business_date=date(2026, 1, 5))


@dataclass
class Holds:
    """`PruningHolds`: offset and when it ends, by holder."""

    now: float = 0.0
    held: dict[str, tuple[int, float]] = field(default_factory=dict)

    def hold_log(self, topic: str, *, holder: str, offset: int, lease_s: float) -> str:
        self.held[holder] = offset, self.now + lease_s
        return holder

    def release_log(self, hold_id: str) -> None:
        del self.held[hold_id]

    def floor(self) -> int:
        return min(offset for offset, until in self.held.values() if until > self.now)


def test_a_night_amid_a_backfill_lets_go_of_nothing_that_it_needs_and_a_backfill_keeps_the_log_for_days() -> None:
    holds: Any = Holds()
    hold(holds, NIGHTLY, "warehouse", 900, next_cuts=900)
    hold(holds, BACKFILL, "warehouse", 100, next_cuts=900)
    hold(holds, replace(NIGHTLY, run_id="tonight"), "warehouse", 950, next_cuts=950)
    assert holds.floor() == 100
    holds.now += RUN_HOLD_S
    assert holds.floor() == 950, "and not for as long as no night comes"


def test_a_read_that_is_a_break_leaves_what_the_next_night_begins_with() -> None:
    holds: Any = Holds()
    hold(holds, NIGHTLY, "warehouse", 970, next_cuts=900)
    holds.now += HOLD_S - 1
    assert holds.floor() == 900


def test_the_log_of_a_first_cut_is_kept_as_long_as_nights_may_be_missed() -> None:
    holds: Any = Holds()
    hold(holds, NIGHTLY, "warehouse", 500, next_cuts=None)
    holds.now += HOLD_S - 1
    assert holds.floor() == 500
