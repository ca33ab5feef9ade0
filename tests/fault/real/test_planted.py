"""The checks of T1 are shown real streams that are wrong: a bug is planted into the worker's process, and the checks
that are named here must find it. Every case onboards again, so the bug before has left nothing behind.
"""

from collections.abc import Callable, Iterator, Mapping

import pytest

from tests.fault.real import plants
from tests.fault.real.anomalies import Anomaly
from tests.fault.real.bank_under_fire import COMMITS_MIN, BankUnderFire
from tests.fault.real.planted_bank import SOURCE, STATE, TYPED, Caught, PlantedBank, planted_bank
from tests.fault.real.plants import PLANTS, Plant
from tests.fault.real.report import PlantedBug, Tally

LOST, TORN, DUPLICATED = Anomaly.LOST, Anomaly.TORN, Anomaly.DUPLICATED
REORDERED, STALE_EPOCH, STOPPED = Anomaly.REORDERED, Anomaly.STALE_EPOCH, Anomaly.UNEXPLAINED_STOP


@pytest.fixture(scope="module")
def planted(bank: BankUnderFire) -> Iterator[PlantedBank]:
    made = planted_bank(bank)
    yield made
    made.close()


# ---- what has to happen so that a bug does harm ---------------------------------------------------------------------


def nothing(bank: PlantedBank) -> None:
    bank.load()
    bank.start("stream")
    bank.stream_on()


def killed_with_half_of_the_rows(bank: PlantedBank) -> None:
    bank.load()
    # A lake comes here twice in a commit: with half of its tables written, and with half of its pointers moved.
    bank.killed_at("app.dml_half", 8)
    bank.stream_on()


def killed_behind_the_pointers(bank: PlantedBank) -> None:
    """Before the ledger's transaction has done anything."""
    bank.load()
    bank.killed_at("app.dest_begin", 7)
    bank.stream_on()


def answers_lost(bank: PlantedBank) -> None:
    """Of every commit: not each of them adds rows without a key."""
    bank.load()
    stream = bank.start("stream", "app.commit_sent=error")
    bank.stream_on()
    stream.disarm()


def error_in_a_commit(bank: PlantedBank) -> None:
    bank.load()
    bank.start("stream", "app.dml_half=error@7")
    bank.stream_on()


def overtaken(bank: PlantedBank) -> None:
    bank.load()
    bank.commits_beside_a_new_owner()


def commits_behind_the_views(bank: PlantedBank) -> None:
    bank.load_with_commits_behind_the_views()
    bank.start("stream")
    bank.stream_on()


def open_transactions_at_the_views(bank: PlantedBank) -> None:
    bank.load_among_open_transactions()
    bank.start("stream")
    bank.stream_on()


def repeated(bank: PlantedBank) -> None:
    nothing(bank)
    bank.repeat_a_transaction()


Scene = Callable[[PlantedBank], None]
# What happens, and the checks each of which must find the bug; others may.
CAUGHT_BY: Mapping[Plant, tuple[Scene, set[str]]] = {
    plants.offset_before_data: (killed_with_half_of_the_rows, {TORN, REORDERED, LOST, STATE}),
    plants.pointers_before_ledger: (killed_behind_the_pointers, {TORN, STOPPED}),
    plants.epoch_ignored: (overtaken, {STALE_EPOCH, STOPPED}),
    plants.lost_answer_taken_for_a_failure: (answers_lost, {REORDERED, DUPLICATED, STATE}),
    plants.commit_error_swallowed: (error_in_a_commit, {STOPPED}),
    plants.boundary_off_by_one: (commits_behind_the_views, {REORDERED, LOST, STATE}),
    plants.boundary_by_the_lsn_of_rows: (open_transactions_at_the_views, {REORDERED, LOST, STATE}),
    plants.deletes_dropped: (nothing, {TORN, DUPLICATED, STATE}),
    plants.one_copy_too_few_removed: (nothing, {DUPLICATED, STATE}),
    plants.equal_rows_joined: (nothing, {LOST, STATE}),
    plants.instants_shifted: (nothing, {STATE, TYPED}),
    plants.decimals_cut: (nothing, {TORN, STATE, TYPED}),
    # The last of its source: its log topic is no model of anything afterwards.
    plants.repeats_not_dropped: (repeated, {DUPLICATED, SOURCE}),
}
# Where a bug is the same for all pairs, one of them is enough.
OF_SOURCE = {
    "mariadb": (
        plants.offset_before_data,
        plants.epoch_ignored,
        plants.boundary_off_by_one,
        plants.deletes_dropped,
        plants.equal_rows_joined,
        plants.decimals_cut,
    ),
    "postgres": (
        plants.lost_answer_taken_for_a_failure,
        plants.commit_error_swallowed,
        plants.boundary_by_the_lsn_of_rows,
        plants.instants_shifted,
        plants.decimals_cut,
        plants.repeats_not_dropped,
    ),
    # Of the destination, which is of another kind here.
    "mysql": (plants.offset_before_data, plants.lost_answer_taken_for_a_failure),
    "lake": (
        plants.offset_before_data,
        plants.lost_answer_taken_for_a_failure,
        plants.one_copy_too_few_removed,
        # The last: its stream stops for good.
        plants.pointers_before_ledger,
    ),
}
CASES = [(source, plant) for source, here in OF_SOURCE.items() for plant in here]


def test_every_plant_has_a_case() -> None:
    assert {plant for _, plant in CASES} == {*CAUGHT_BY} == {*PLANTS.values()}


def judged(bank: PlantedBank, scene: Scene, plant: Plant | None) -> Caught:
    bank.plant(plant)
    scene(bank)
    caught = bank.caught()
    assert caught.commits, "no commit was looked at"
    return caught


def test_without_a_bug_no_check_finds_anything(planted: PlantedBank) -> None:
    caught = judged(planted, nothing, None)
    assert (caught.by, caught.is_caught_up) == ({}, True)
    assert caught.commits >= COMMITS_MIN
    assert caught.transfers


def test_an_audit_that_a_commit_could_go_by_unseen_is_found(planted: PlantedBank) -> None:
    warehouse = planted.warehouse
    assert warehouse.missing_audit() == []
    with warehouse.session() as session:
        session.execute("ALTER TABLE live.seq DISABLE TRIGGER wake")
        try:
            assert warehouse.missing_audit() == ["wake on live.seq"]
        finally:
            session.execute("ALTER TABLE live.seq ENABLE TRIGGER wake")
    assert warehouse.missing_audit() == []


@pytest.mark.parametrize(
    ("bank", "plant"),
    CASES,
    indirect=["bank"],
    scope="module",
    ids=[f"{source}-{plant.__name__}" for source, plant in CASES],
)
def test_a_stream_with_a_planted_bug_is_caught(planted: PlantedBank, tally: Tally, plant: Plant) -> None:
    scene, checks = CAUGHT_BY[plant]
    caught = judged(planted, scene, plant)
    tally.planted.append(PlantedBug(planted.pair, plant.__name__, tuple(sorted(caught.by)), caught.commits))
    assert checks <= caught.by.keys(), caught.by
