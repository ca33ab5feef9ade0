"""The bulk path's plan: types that a binary COPY takes as they are, tables spread over tasks, names that fit."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.bulk.copy import CopyItem, CopyTarget, copy_one, grouped
from seamline.databases.postgres.types import destination_type
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, Refused
from seamline.kinds.bulk import BulkRead, PostgresCopy, StagedPlace
from seamline.kinds.sink import Atomic, SinkPowers
from seamline.plan.model import DestinationPlan, SourcePlan
from seamline.sources.mariadb.bulk import _translated, arrow_schema, bulk_statement, reading_of
from seamline.sources.mariadb.sessions import Address
from seamline.sources.mariadb.snapshot_barrier import BarrierLocks

SOURCE = SourcePlan("s", "mariadb", "bank", "r", "c", "m", "log", "connector")
ONLY_IN_POSTGRES = {Kind.TIME_OF_DAY, Kind.INTERVAL, Kind.JSONB, Kind.NATIVE}
# What the encoder puts on the wire for an Arrow type, by the type that reads just that.
BINARY_FORM = {
    pa.int16(): "smallint",
    pa.int32(): "integer",
    pa.int64(): "bigint",
    pa.float32(): "real",
    pa.float64(): "double precision",
    pa.bool_(): "boolean",
    pa.large_binary(): "bytea",
    pa.date32(): "date",
    pa.duration("us"): "interval",
    pa.binary(16): "uuid",
}

WAREHOUSE = DestinationPlan("w", "postgres", "w", "w")


def _same_on_the_wire(arrow: pa.DataType, destination: str) -> bool:
    if pa.types.is_decimal(arrow):
        return destination in (f"numeric({arrow.precision},{arrow.scale})", f"numeric({arrow.precision})")
    if pa.types.is_timestamp(arrow):
        return destination.startswith("timestamp") and ("with time zone" in destination) == bool(arrow.tz)
    if arrow == pa.string():
        return destination == "text" or destination.startswith("varchar(")
    return BINARY_FORM[arrow] == destination


@given(
    st.sampled_from([kind for kind in Kind if kind not in ONLY_IN_POSTGRES]),
    st.integers(0, 64),
    st.integers(1, 65).flatmap(lambda precision: st.tuples(st.just(precision), st.integers(0, min(precision, 38)))),
)
def test_every_kind_is_read_in_the_binary_form_of_its_destination_column(
    kind: Kind, length: int, digits: tuple[int, int]
) -> None:
    precision, scale = digits if kind is Kind.DECIMAL else (6, 0)
    column = Column("v", kind, kind.value, True, length, precision, scale)
    assert _same_on_the_wire(reading_of(column).arrow, destination_type(column))


def test_names_of_columns_and_tables_are_quoted_in_the_statement() -> None:
    table = Table("o`dd", (Column("a`b", Kind.INTEGER, "int", length=32), Column("%s", Kind.STRING, "text")))
    statement = bulk_statement("d`b", table, Segment("o`dd"), start_lock="start")
    assert "`d``b`.`o``dd`" in statement
    assert "`a``b` AS `a``b`" in statement
    assert arrow_schema(table).names == ["a`b", "%s"]


def _items(sizes: list[int]) -> list[CopyItem]:
    items = []
    for number, rows in enumerate(sizes):
        table = Table(f"t{number}", (Column("id", Kind.INTEGER, "int"),), ("id",), rows)
        read = BulkRead(table, Segment(table.name), number)
        target = CopyTarget(StagedPlace(table, "stage", f"t{number}_1"), WAREHOUSE)
        items.append(CopyItem(read, (target,)))
    return items


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=200), st.integers(1, 16), st.integers(1, 8))
def test_every_table_is_read_once_by_a_participant_of_its_own_number(
    sizes: list[int], tasks: int, children_max: int
) -> None:
    groups = grouped(_items(sizes), source=SOURCE, tasks=tasks, children_max=children_max)
    assert len(groups) == min(tasks, len(sizes))
    read = sorted(item.read.session for group in groups for items in group.participants for item in items)
    assert read == list(range(len(sizes)))
    numbers = [group.first_participant + child for group in groups for child in range(len(group.participants))]
    assert numbers == list(range(len(numbers)))
    assert all(len(group.participants) <= children_max and all(group.participants) for group in groups)


def test_the_largest_tables_are_read_by_different_tasks() -> None:
    groups = grouped(_items([5, 900, 7, 1000]), source=SOURCE, tasks=2)
    first = [group.participants[0][0].read.table.rows_estimate for group in groups]
    assert first == [1000, 900]


@pytest.mark.parametrize("run", ["s", "settlement/onboard/-/" + "x" * 300])
def test_lock_names_fit_into_64_characters(run: str) -> None:
    locks = BarrierLocks(run)
    names = [
        locks.name("answer", attempt=59, participant=199),
        locks.at(Address("a-long-binlog-name.000123", 2**32), attempt=59, session=199),
        f"{locks.name('start', attempt=59, participant=199)}.199",
    ]
    assert all(len(name) <= 64 for name in names)
    assert len(set(names)) == 3
    assert BarrierLocks(run).name("open", attempt=1) != BarrierLocks(run + "'").name("open", attempt=1)


def test_a_source_that_takes_no_session_in_the_clear_is_named_with_the_setting_that_it_asks_for() -> None:
    said = (
        "ERROR 3159 (HY000): Connections using insecure transport are prohibited while --require_secure_transport=ON."
    )
    refused = _translated(f"timed out waiting for connection: {said}", Table("account", ()))
    assert isinstance(refused, ConfigError)
    assert "sslmode" in refused.hint


class TakesArrowOnly:
    powers = SinkPowers(Atomic.SYNC)


class CopyReaders:
    """Readers whose rows come in the native form."""

    def rows(self, number: int, *, proven: object) -> PostgresCopy:
        return PostgresCopy(iter(()))


def test_a_sink_that_takes_no_native_copy_refuses_one_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda name: TakesArrowOnly())
    (item,) = _items([1])
    with pytest.raises(Refused, match=r"destination w .postgres. takes no binary COPY"):
        copy_one(CopyReaders(), 0, item, {})  # type: ignore[arg-type]
