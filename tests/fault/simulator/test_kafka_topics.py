"""Seeded schedules of a stream into topics with kills, and every planted bug found by its check."""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import pytest

from seamline.kinds.held_rows import HeldRows
from seamline.kinds.sink import AT_LEAST_ONCE
from seamline.sinks.kafka import commit, sink, table_writer
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.repeated import Repeated
from seamline.sinks.kafka.transaction import Deliveries, Sending
from tests.fault.simulator.kafka_topics import GUARANTEES, TopicsRun, run_topics
from tests.fault.simulator.schedule import Violation
from tests.fault.simulator.seeds import require_all_right
from tests.log_topic import STREAM
from tests.memory_topics import FAILED, KILLED, UNANSWERED

# `SEAMLINE_KAFKA_TOPICS=2000 python -m pytest tests/fault/simulator/test_kafka_topics.py` runs so many of each.
SEEDS = int(os.environ.get("SEAMLINE_KAFKA_TOPICS", "60"))  # noqa: TID251 (a test's own switch)
PLANTED_MAX = 1_500
# A run in which one of these never happened has checked less than it says.
MET = (KILLED, FAILED, UNANSWERED, "commit unknown", "committed", "emptied", "rows held")


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("guarantee", GUARANTEES)
def test_every_schedule_of_topics_has_each_change_once_at_every_step(guarantee: str, partitions: int) -> None:
    tally = require_all_right(lambda seed: run_topics(seed, guarantee, partitions), seeds=SEEDS, met=MET)
    assert bool(tally["marks"]) is bool(tally["late"]) is (guarantee != "exactly_once")


def test_a_new_owner_takes_the_keys_of_those_before_it_out_of_the_control_topic() -> None:
    run = TopicsRun(5, AT_LEAST_ONCE, 1)
    run.run()
    place = ("t.control", 0)
    before = {record.key() for record in run.cluster.readable(place)}
    assert len(before) > 2, "owners who said something late, too"
    with run.cluster.in_place():
        run._owner()
    run.cluster.compact(place)
    assert [one.key() for one in run.cluster.readable(place) if one.value() is not None] == [str(STREAM).encode()]


def _takes_a_row_for_a_marker(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Deliveries, "markers", 1)


def _forgets_marks_that_nobody_finds_again(patch: pytest.MonkeyPatch) -> None:
    def with_repeated(known: Sequence[Repeated], found: Sequence[Repeated], *, ends: Sequence[int]) -> Any:
        return (*(one for one in known if one.first < ends[one.partition]), *found)

    patch.setattr(sink, "with_repeated", with_repeated)


def _marks_nothing(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sink, "found_behind", lambda *given, **more: [])


def _spreads_equal_rows(patch: pytest.MonkeyPatch) -> None:
    numbers = count()
    patch.setattr(table_writer, "partition_of", lambda row, partitions: next(numbers) % partitions)


def _counts_what_did_not_arrive(patch: pytest.MonkeyPatch) -> None:
    delivered = Sending._delivered

    def counted(self: Sending, error: Any, message: Any) -> None:
        if error is None:
            delivered(self, None, message)
        else:
            self._arrived += 1

    patch.setattr(Sending, "_delivered", counted)


def _empties_what_counts_alone(patch: pytest.MonkeyPatch) -> None:
    def held_keys(self: Fold) -> Iterator[bytes]:
        return HeldRows.held_keys(self)

    patch.setattr(Fold, "held_keys", held_keys)


def _says_all_under_one_key(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(commit, "key_of", lambda stream, epoch: str(stream).encode())


# A bug that few schedules meet is looked for from one that does.
BEGINS_AT: Mapping[Callable[[pytest.MonkeyPatch], None], int] = {
    _takes_a_row_for_a_marker: 43,
    _forgets_marks_that_nobody_finds_again: 193,
    _says_all_under_one_key: 12,
    _empties_what_counts_alone: 58,
}
PLANTED: Mapping[Callable[[pytest.MonkeyPatch], None], tuple[str, tuple[str, ...]]] = {
    _takes_a_row_for_a_marker: (AT_LEAST_ONCE, ("stopped", "folded", "followed")),
    _forgets_marks_that_nobody_finds_again: (AT_LEAST_ONCE, ("folded", "followed", "stopped")),
    _marks_nothing: (AT_LEAST_ONCE, ("folded", "followed")),
    _says_all_under_one_key: (AT_LEAST_ONCE, ("lost", "folded", "followed")),
    _spreads_equal_rows: ("exactly_once", ("order",)),
    _counts_what_did_not_arrive: ("exactly_once", ("folded", "followed")),
    _empties_what_counts_alone: (AT_LEAST_ONCE, ("newest", "folded")),
}


@pytest.mark.parametrize("plant", list(PLANTED), ids=lambda plant: plant.__name__.lstrip("_"))
def test_a_planted_bug_of_topics_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    guarantee, checks = PLANTED[plant]
    for seed in range(BEGINS_AT.get(plant, 0), PLANTED_MAX):
        try:
            run_topics(seed, guarantee, 1 + 2 * (plant is _spreads_equal_rows))
        except Violation as found:
            print(f"{plant.__name__}: seed {seed}, {found}")
            assert found.check in checks, f"seed {seed} found it by {found}"
            return
    pytest.fail(f"not found in {PLANTED_MAX} seeds")
