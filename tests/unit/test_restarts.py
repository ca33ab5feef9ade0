"""What a stream knows after a restart: the ledger, also while the boundaries of its tables are still open."""

from collections.abc import Callable

import pytest

from seamline.adapters.failpoints import ArmedFailpoints
from seamline.adapters.memory_sink import LostAnswer, MemorySink
from seamline.domain.errors import Fenced, LogCorrupted, TransientError
from seamline.domain.ledger import StreamId
from seamline.plan.model import StreamPlan
from seamline.ports import Lease
from tests.log_topic import ACCOUNT, AUDIT, STREAM, LogTopic, insert, sync_plan, update
from tests.unit.test_span_loop import Stage, WatchedSink, published


def told_in_another_order(log: LogTopic) -> None:
    log.begin(2)
    log.row(update(ACCOUNT, {"id": 1, "name": "a"}, {"id": 1, "name": "b"}))
    log.finish()
    log.begin(1)
    log.row(update(ACCOUNT, {"id": 1, "name": "x"}, {"id": 1, "name": "a"}))
    log.finish()


def told_twice(log: LogTopic) -> None:
    for _ in range(2):
        log.begin(1)
        log.row(insert(AUDIT, actor="x", action="once"))
        log.finish()


@pytest.mark.parametrize("tell", [told_in_another_order, told_twice])
def test_disorder_is_seen_across_a_restart_before_the_high_marker_too(tell: Callable[[LogTopic], None]) -> None:
    log, destination = LogTopic(), published()
    destination.keyed["account"] = {(1,): {"id": 1, "name": "a"}}
    tell(log)
    one_by_one = sync_plan(stream=StreamPlan(span_changes_max=1))
    with pytest.raises(TransientError):
        Stage(log, destination, plan=one_by_one).run(failpoints=ArmedFailpoints("app.commit_acked=error@1"))
    first = destination.keyed, destination.keyless
    again = Stage(log, destination, plan=one_by_one)
    with pytest.raises(LogCorrupted, match="a second time"):
        again.run()
    assert again.ledger.is_catching_up
    assert (destination.keyed, destination.keyless) == first


def test_a_lost_answer_does_not_take_the_stream_back_from_a_new_owner() -> None:
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    destination = published()
    stage = Stage(log, destination)

    class Stolen(WatchedSink):
        def acquire(self, stream: StreamId, *, after_epoch: int | None = None) -> Lease:
            if after_epoch is not None:
                MemorySink(stage.plan, destination).acquire(STREAM)
            return super().acquire(stream, after_epoch=after_epoch)

    stage.sink = Stolen(stage.plan, destination)
    destination.lose_answer = LostAnswer.APPLIED
    with pytest.raises(Fenced):
        stage.run()
    assert stage.ledger.epoch == 3, "publish took 1, the start 2, the new owner 3, and it keeps it"
