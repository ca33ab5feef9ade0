"""When a stream's loop ends because nothing happens."""

from collections.abc import Sequence

from seamline.domain.log import LogRecord
from seamline.ports import Orders
from seamline.sync.pace import Pace
from tests.log_topic import ACCOUNT, LogTopic, ScriptedControl, insert, position
from tests.unit.test_span_loop import Stage, published


def idle_stage(*, orders: int = 100) -> Stage:
    """A stream at the end of its log, where each look takes as long as it may."""
    log = LogTopic()
    log.transaction(insert(ACCOUNT, id=1, name="a"))
    stage = Stage(log, published(ended=True))
    # Log and clock show the same time: the source is not silent.
    stage.clock.time = 1.0
    taking = stage.reader.poll

    def poll(timeout_s: float, records_max: int) -> Sequence[LogRecord]:
        stage.clock.time += timeout_s
        return taking(timeout_s, records_max)

    stage.reader.poll = poll  # type: ignore[method-assign]
    stage.control = ScriptedControl(stage.reader, orders=[Orders()] * orders)
    return stage


def test_a_stream_to_which_nothing_happens_ends_idle_where_its_ledger_stands() -> None:
    stage = idle_stage()
    report = stage.run(pace=Pace(idle_after_s=20))
    assert report.state == "idle"
    assert report.next_offset == stage.ledger.next_offset == stage.log.end
    assert 20 <= stage.clock.time < 25
    assert stage.control.states == ["starting", "streaming"], "the host speaks for it from here on"


def test_a_stream_that_nobody_listens_for_never_ends_idle() -> None:
    assert idle_stage().run().state == "stopped"


def test_a_stream_whose_source_is_silent_keeps_its_worker() -> None:
    assert idle_stage(orders=400).run(pace=Pace(idle_after_s=120)).state == "stopped"


def test_a_stream_with_a_transaction_that_has_not_ended_keeps_its_worker() -> None:
    stage = idle_stage()
    stage.log.begin()
    assert stage.run(pace=Pace(idle_after_s=20)).state == "stopped"


def test_a_stream_that_is_held_keeps_its_worker() -> None:
    stage = idle_stage()
    stage.control = ScriptedControl(stage.reader, orders=[Orders(hold_id="h", hold_until_s=2e9)] * 1_000)
    assert stage.run(pace=Pace(idle_after_s=5)).state == "stopped"
    assert "held" in stage.control.states


def test_a_stream_that_is_asked_to_apply_up_to_a_position_keeps_its_worker_until_it_has() -> None:
    stage = idle_stage()
    far = Orders(hold_id="h", hold_until_s=2e9, apply_to=position(9))
    stage.control = ScriptedControl(stage.reader, orders=[Orders()] * 3 + [far] * 1_000)
    assert stage.run(pace=Pace(idle_after_s=5)).state == "stopped"
    assert stage.control.states == ["starting", "streaming", "stopped"], "what it waits for never came"


def test_a_stream_that_cannot_hear_its_orders_keeps_its_worker() -> None:
    stage = idle_stage()
    stage.control = ScriptedControl(stage.reader, orders=[Orders(are_old=True)] * 100)
    assert stage.run(pace=Pace(idle_after_s=20)).state == "stopped"
