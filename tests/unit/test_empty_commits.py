"""A stream into its source's own server reads each of its commits as one more transaction without changes."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from seamline.domain.ledger import LedgerRow
from seamline.domain.log import LogRecord
from seamline.plan.model import StreamPlan
from seamline.ports import Orders
from seamline.sync.pace import Pace
from tests.log_topic import ACCOUNT, LogTopic, ScriptedControl, insert, sync_plan
from tests.unit.test_span_loop import Stage, published

_EVER = 10_000


class OwnServer(Stage):
    """Each commit is the next transaction of its log. `at`: when they were made."""

    def __init__(self, *, span_changes_max: int = 50_000) -> None:
        plan = sync_plan(stream=StreamPlan(span_changes_max=span_changes_max))
        super().__init__(LogTopic(), published(ended=True), plan=plan)
        self.clock.time = 1.0
        self.log.clock_ms = lambda: int(1000 * self.clock.time)
        self.log.transaction(insert(ACCOUNT, id=1, name="a"))
        self.at: list[float] = []
        self.ends_at_s = 90.0
        self.arrivals: dict[float, Callable[[], object]] = {}
        self.sink.after_commit = self._committed  # type: ignore[method-assign]
        self.control = ScriptedControl(self.reader, orders=[Orders()] * _EVER)
        self._taking = self.reader.poll
        self.reader.poll = self._poll  # type: ignore[method-assign]

    def _committed(self, ledger: LedgerRow) -> None:
        self.commits.append(ledger)
        self.at.append(self.clock.time)
        self.log.transaction()

    def _poll(self, timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        if self.reader.is_drained:
            self.clock.time += timeout_s
        for moment in [one for one in self.arrivals if one <= self.clock.time]:
            self.arrivals.pop(moment)()
        if self.clock.time >= self.ends_at_s:
            self.control = self.control_that_ends()
        return self._taking(timeout_s, records_max)

    def control_that_ends(self) -> ScriptedControl:
        self.control._script = [Orders(wanted=False)]  # noqa: SLF001
        return self.control

    @property
    def waits(self) -> list[float]:
        return [round(after - before) for before, after in pairwise(self.at)]


def test_its_commits_without_changes_follow_each_other_ever_more_slowly() -> None:
    stage = OwnServer()
    stage.run()
    assert stage.waits[:5] == [1, 2, 4, 8, 10]
    assert set(stage.waits[5:-1]) == {Pace().empty_commit_wait_max_s}


def test_a_change_is_committed_at_once_and_the_waits_begin_again() -> None:
    stage = OwnServer()
    stage.arrivals = {41.3: lambda: stage.log.transaction(insert(ACCOUNT, id=2, name="b"))}
    stage.run()
    number = next(place for place, moment in enumerate(stage.at) if moment > 41.3)
    assert stage.at[number] < 41.3 + 2 * Pace().idle_wait_s
    assert stage.waits[number : number + 4] == [1, 2, 4, 8]


def test_a_marker_is_in_the_ledger_at_once_and_the_waits_begin_again() -> None:
    stage = OwnServer()
    stage.arrivals = {41.3: lambda: stage.log.marker("m", "barrier")}
    stage.run()
    number = next(place for place, one in enumerate(stage.commits) if one.last_marker == "m")
    assert stage.at[number] < 41.3 + 2 * Pace().idle_wait_s
    assert stage.waits[number : number + 4] == [1, 2, 4, 8]


def test_a_hold_gets_its_commit_at_once() -> None:
    stage = OwnServer()
    held: list[float] = []

    def hold() -> None:
        held.append(len(stage.at))
        stage.control._script = [Orders(hold_id="h", hold_until_s=2e9), Orders(wanted=False)]  # noqa: SLF001

    stage.arrivals = {41.3: hold}
    stage.run()
    (before,) = held
    assert stage.commits[int(before)].next_offset > stage.commits[int(before) - 1].next_offset
    assert stage.at[int(before)] < 41.3 + 2 * Pace().idle_wait_s
    assert stage.control.states[-2:] == ["held", "stopped"]


def test_no_more_of_them_than_fill_a_span_wait_for_their_commit() -> None:
    stage = OwnServer(span_changes_max=50)
    stage.arrivals = {30.0 + number / 10: stage.log.transaction for number in range(500)}
    stage.run()
    counts = [ledger.applied_transactions for ledger in stage.commits]
    # Behind the fiftieth come those of the same poll.
    assert 50 <= max(after - before for before, after in pairwise(counts)) < 60


def test_it_gives_up_its_worker_as_any_quiet_stream_does() -> None:
    stage = OwnServer()
    assert stage.run(pace=Pace(idle_after_s=40)).state == "idle"
    assert 40 <= stage.clock.time < 60
