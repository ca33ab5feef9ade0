"""T1 with tables of Iceberg and of Delta behind PostgreSQL: a stream, an onboarding, a joining and a cut are disturbed
between every two steps of a lake's commit.

After each case every commit of the catalogue was looked at: all pointers at the ledger's state, and the rows of all
tables at these snapshots (`warehouse_lake.py`). The audit is shown wrong states first.
"""

import random
from collections.abc import Iterator

import pytest
from pyiceberg.table import StaticTable

from seamline.adapters.failpoints import Mode
from tests.fault.real.anomalies import Anomaly, check_commits
from tests.fault.real.bank_under_fire import BankUnderFire
from tests.fault.real.cutting_bank import STEPS, CuttingBank, cutting_bank
from tests.fault.real.ends import assert_all_is_right_at_the_end
from tests.fault.real.places import (
    FIRST_PUBLISH_OF_A_LAKE,
    HITS_MAX,
    HITS_MAX_ELSE,
    JOINING_OF_A_LAKE,
    LAKE_CUTTING,
    LAKE_ONBOARDING,
    LAKE_STREAM,
    PUBLISH_OF_A_LAKE,
    SINK_OF_A_LAKE,
)
from tests.fault.real.report import Tally
from tests.fault.real.warehouse_lake import LakeWarehouse

of_iceberg = pytest.mark.parametrize("bank", ["lake"], indirect=True, scope="module")
of_every_lake = pytest.mark.parametrize("bank", ["lake", "delta"], indirect=True, scope="module")

_BACK = "UPDATE public.iceberg_tables SET metadata_location = previous_metadata_location WHERE table_name = '{}'"
WRONG_CATALOGUES = (
    # Another table than the ledger's state names, though it is one that the stream has written.
    _BACK.format("account"),
    _BACK.format("seq"),
    "DELETE FROM public.iceberg_tables WHERE table_name = 'typ'",
    "DELETE FROM seamline.lake_state WHERE state_id = (SELECT max(state_id) FROM seamline.lake_state)",
    "UPDATE public.iceberg_tables SET metadata_location = metadata_location || '.gone' WHERE table_name = 'audit'",
)


@pytest.fixture(scope="module")
def cutting(bank: BankUnderFire) -> Iterator[CuttingBank]:
    made = cutting_bank(bank)
    yield made
    made.close()


def lake_of(bank: BankUnderFire) -> LakeWarehouse:
    assert isinstance(bank.warehouse, LakeWarehouse)
    return bank.warehouse


@of_every_lake
@pytest.mark.parametrize(("failpoint", "mode"), FIRST_PUBLISH_OF_A_LAKE)
def test_tables_whose_first_publish_is_disturbed_are_published_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_first_publish(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@of_iceberg
@pytest.mark.parametrize("statement", WRONG_CATALOGUES)
def test_the_audit_sees_a_catalogue_whose_tables_are_not_at_the_ledger_s_state(
    bank: BankUnderFire, statement: str
) -> None:
    found = {one.anomaly for one in check_commits([bank.warehouse.seen_after(statement)])}
    assert Anomaly.TORN in found
    assert check_commits([bank.warehouse.seen_after("SELECT 1")]) == []
    assert lake_of(bank).pinned().apart() == []


@of_iceberg
def test_the_audit_sees_a_commit_of_pointers_that_leaves_the_ledger_alone(bank: BankUnderFire) -> None:
    found = check_commits([bank.warehouse.seen_after_rows(_BACK.format("account"))])
    assert any("not the ledger" in one.said for one in found)


@of_iceberg
def test_the_audit_reads_the_rows_that_every_other_client_reads(bank: BankUnderFire) -> None:
    lake = lake_of(bank)
    for name, location in lake.pinned().heads.items():
        by_pyiceberg = StaticTable.from_metadata(location).scan().to_arrow()
        columns = by_pyiceberg.column_names[:2]
        found = lake.files.rows(lake.files.state(location), columns)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, by_pyiceberg.select(columns).to_pylist())), name


@of_every_lake
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", LAKE_STREAM)
def test_a_stream_whose_files_are_written_and_no_pointer_moved_goes_on_from_the_ledger(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    _disturb_stream(bank, tally, failpoint, mode)


@of_every_lake
@pytest.mark.parametrize(("failpoint", "mode"), SINK_OF_A_LAKE)
def test_a_stream_into_a_lake_that_is_disturbed_goes_on_from_the_ledger(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    _disturb_stream(bank, tally, failpoint, mode)


@of_every_lake
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", LAKE_ONBOARDING)
def test_an_onboarding_whose_files_are_written_and_no_pointer_moved_is_done_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_onboarding(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@of_every_lake
@pytest.mark.parametrize(("failpoint", "mode"), PUBLISH_OF_A_LAKE)
def test_a_publish_into_a_lake_that_is_disturbed_is_done_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_onboarding(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@of_every_lake
@pytest.mark.parametrize(("failpoint", "mode"), JOINING_OF_A_LAKE)
def test_tables_whose_joining_in_a_lake_is_disturbed_join_by_the_next_attempt(
    bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode
) -> None:
    case = bank.disturb_joining(failpoint, mode)
    tally.cases.append(case)
    assert case.violations == ()


@of_iceberg
@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("failpoint", LAKE_CUTTING)
def test_a_cut_that_is_disturbed_is_all_tables_at_one_state_by_the_next_attempt(
    cutting: CuttingBank, tally: Tally, failpoint: str, mode: Mode
) -> None:
    for step in STEPS if mode is Mode.KILL9 else STEPS[1:]:
        case = cutting.disturb_cut(step, failpoint, mode)
        tally.cases.append(case)
        assert case.violations == ()


@of_every_lake
def test_after_all_cases_every_transaction_is_there_once_and_the_destination_is_the_source(
    bank: BankUnderFire, tally: Tally
) -> None:
    assert lake_of(bank).pinned().apart() == []
    assert_all_is_right_at_the_end(bank, tally)


def _disturb_stream(bank: BankUnderFire, tally: Tally, failpoint: str, mode: Mode) -> None:
    chance = random.Random(f"{tally.seed}/{bank.pair}/{failpoint}/{mode}")
    case = bank.disturb_stream(failpoint, mode, chance.randint(1, HITS_MAX.get(failpoint, HITS_MAX_ELSE)))
    tally.cases.append(case)
    assert case.violations == ()
