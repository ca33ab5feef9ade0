"""Whether a log that fills up slows a read down depends on who keeps it: others, the read, or what it moves on."""

from seamline.domain.ledger import StreamId
from seamline.domain.log_fill import Follower
from seamline.domain.log_floor import LogHold
from seamline.domain.log_keepers import (
    LogUser,
    held_for_cut,
    held_for_cuts,
    held_for_load,
    held_unpublished,
    pressure_on,
)
from seamline.domain.reading_pace import LogPressure, Rate
from seamline.domain.runs import RunKind

LOAD = LogUser("s/onboard/1", "s", frozenset({"reporting"}), RunKind.ONBOARD)
NIGHT = LogUser("s/night/1", "s", frozenset({"reporting", "warehouse"}), RunKind.NIGHTLY)
SLOW, FAST = StreamId("s", "reporting"), StreamId("s", "warehouse")
FOLLOWED = LogPressure(Rate.SLOWED, "why")
OURS = LogPressure(Rate.SLOWED, "why", is_ours=True)


def pressure(
    user: LogUser, streams: dict[StreamId, int], holds: dict[str, int], rate: Rate = Rate.SLOWED
) -> LogPressure | None:
    followers = [Follower(stream, offset) for stream, offset in streams.items()]
    return pressure_on(user, rate, "why", followers=followers, holds=[LogHold(*one) for one in holds.items()])


def test_a_load_follows_streams_that_need_older_records_and_keeps_the_log_itself_where_none_does() -> None:
    assert pressure(LOAD, {FAST: 499}, {LOAD.run_id: 500}) == FOLLOWED
    for own in (LOAD.run_id, held_for_load(LOAD.run_id) + "reporting", held_unpublished(LOAD.run_id)):
        assert pressure(LOAD, {FAST: 500}, {own: 500}) == OURS
    assert pressure(LOAD, {FAST: 500}, {held_for_load("s/onboard/10") + "reporting": 500}) == FOLLOWED


def test_a_stream_that_is_loaded_again_slows_its_own_load_neither_before_it_begins_nor_while_it_reads() -> None:
    behind = {SLOW: 100, FAST: 900}
    assert pressure(LOAD, behind, {}) is None
    assert pressure(LOAD, behind, {LOAD.run_id: 900}) is None
    assert pressure(LOAD, behind, {LOAD.run_id: 900}, Rate.WAITS) is None, "it does not end either: that frees nothing"
    assert pressure(LOAD, {SLOW: 100, FAST: 800}, {LOAD.run_id: 900}) == FOLLOWED, "another one is behind too"
    assert pressure(LogUser("t/1", "t", LOAD.destinations, RunKind.ONBOARD), behind, {"t/1": 900}) == FOLLOWED
    assert pressure(LogUser("s/1", "s", LOAD.destinations, RunKind.TABLES), behind, {"s/1": 900}) == FOLLOWED


def test_an_onboarding_does_not_begin_while_the_capture_pauses_for_its_marker_would_not_come() -> None:
    assert pressure(LOAD, {SLOW: 100}, {}, Rate.WAITS) == LogPressure(Rate.WAITS, "why")
    assert pressure(LOAD, {}, {}, Rate.WAITS) is None, "nobody follows: a host that is gone has left the alarm"


def test_a_load_keeps_no_log_that_an_older_load_or_the_next_cut_of_another_sync_keeps_too() -> None:
    for other in ("t/onboard/1", held_for_load("t/onboard/1") + "warehouse", held_for_cuts("t") + "warehouse"):
        assert pressure(LOAD, {FAST: 900}, {LOAD.run_id: 500, other: 499}) == FOLLOWED
        assert pressure(LOAD, {FAST: 900}, {LOAD.run_id: 500, other: 500}) == OURS


def test_a_night_is_neither_slowed_down_nor_ended_for_what_the_log_keeps_for_its_own_next_cut() -> None:
    mine = {held_for_cuts("s") + "warehouse": 100}
    assert pressure(NIGHT, {FAST: 900}, mine) is None
    assert pressure(NIGHT, {FAST: 900}, mine, Rate.WAITS) is None
    assert pressure(NIGHT, {FAST: 99}, mine) == FOLLOWED
    assert pressure(NIGHT, {FAST: 900}, {held_for_cuts("t") + "warehouse": 100}) == FOLLOWED
    assert pressure(NIGHT, {FAST: 900}, {**mine, held_for_load(NIGHT.run_id) + "warehouse": 50}) == OURS
    assert pressure(NIGHT, {FAST: 900}, {held_for_cut(NIGHT.run_id) + "warehouse": 100}) is None
    assert pressure(NIGHT, {FAST: 900}, {held_for_cut("s/night/10") + "warehouse": 100}) == FOLLOWED
    assert pressure(LOAD, {FAST: 900}, mine) == FOLLOWED, "an onboarding does not move it on"
