"""A table that destinations of one sync hold by different transforms: declared, planned, and read once for all."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest

from seamline.bulk.copy import CopyItem, CopyTarget, copy_one
from seamline.bulk.read import RunReader
from seamline.domain.catalogue import Table
from seamline.domain.digest import Segment
from seamline.domain.errors import SchemaConflict, SeamlineError
from seamline.domain.row_transform import Analysed, RowTransform
from seamline.domain.runs import RunKind, RunState
from seamline.kinds.arrow_view import ArrowView
from seamline.kinds.bulk import ArrowRows, BulkRead, Form, OpenedSource, StagedPlace, TableRows
from seamline.kinds.sink import Atomic, SinkPowers
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.list_change import ListChange, altered
from seamline.plan.model import DestinationPlan, Run, SyncPlan, TablePlan
from seamline.ports import Survey, TableRead
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of, rows_of
from tests.log_topic import position, sync_plan
from tests.unit.declared import DESTINATION, SUITE, SYNC, write_declarations
from tests.unit.test_memory_kind import NoCopying
from tests.unit.test_plan import ACCOUNT, LEDGER
from tests.unit.test_transformed_rows import CLIENT, FILE, MASKED, QUERY, of_ledger

LAKE = DESTINATION.replace("destination: warehouse", "destination: lake").replace("schema: settlement", "schema: lake")
HIVE = "destination: archive\nkind: hive\nconnection: archive\ndatabase: a\nmetastore: hive\nwarehouse: /srv/a\n"
NAMES = tuple(column.name for column in LEDGER.columns)


def folder(tmp_path: Path, transform: str, *, destinations: str = "warehouse, lake", query: str = QUERY) -> Path:
    """Declarations in which `ledger_entry` has this under `transform:`, on line 8 and those behind it."""
    sync = SYNC.replace("[warehouse]", f"[{destinations}]").replace(
        "  - {name: ledger_entry, business_date: {column: booked_at, as: instant}}\n",
        f"  - name: ledger_entry\n    business_date: {{column: booked_at, as: instant}}\n    transform:{transform}\n",
    )
    files = {"destinations/lake.yaml": LAKE, "destinations/archive.yaml": HIVE, "syncs/settlement.yaml": sync}
    return write_declarations(tmp_path, {**files, "transforms/ledger_entry.sql": query})


def masked_lake(tmp_path: Path, *, analysed: Analysed | None = None) -> SyncPlan:
    declarations = load_declarations(folder(tmp_path, f"\n      lake: {FILE}"))
    survey = Survey((ACCOUNT, LEDGER)) if analysed is not None else None
    return compile_plan(declarations, "settlement", survey, transforms=analysed or {})


def test_a_destination_that_is_named_holds_what_its_file_makes_and_another_one_the_rows_of_the_source(
    tmp_path: Path,
) -> None:
    made = of_ledger(tuple(name for name in NAMES if name != "rate"))
    sync = masked_lake(tmp_path, analysed={("ledger_entry", FILE): made})
    assert sync.held_by("warehouse").table("ledger_entry").target == LEDGER
    assert sync.held_by("lake").table("ledger_entry").target == made.target
    assert sync.transforms_at("warehouse") == sync.held_by("warehouse").transforms_at("warehouse") == {}
    assert sync.transforms_at("lake") == sync.held_by("lake").transforms_at("lake") == {"ledger_entry": FILE}
    assert sync.at_destination("lake").table("ledger_entry").definition == made.target
    assert sync.at_destination("warehouse").table("ledger_entry").definition == LEDGER
    assert sync.of_stream("warehouse").table("ledger_entry").transform is None
    assert sync.of_stream("lake").table("ledger_entry").transform == made
    assert sync.of_stream("lake").of_stream("lake") == sync.of_stream("lake")
    assert plan_from_json(plan_to_json(sync)) == sync


def test_what_a_plan_says_of_one_destination_is_shown_and_counts_as_configuration(tmp_path: Path) -> None:
    plan = masked_lake(tmp_path)
    shown = f"table ledger_entry: rows as {FILE} makes them in lake; rows as the source has them, live"
    assert shown in explain(plan)
    for_all = load_declarations(folder(tmp_path, f" {FILE}"))
    assert compile_plan(for_all, "settlement").table("ledger_entry").transform == RowTransform(FILE, QUERY)
    assert config_hash(for_all, "settlement") != plan.config_hash
    other = load_declarations(folder(tmp_path, f"\n      lake: {FILE}", query=QUERY + "\n"))
    assert config_hash(other, "settlement") != plan.config_hash


def test_a_destination_that_takes_cuts_only_may_hold_a_table_by_a_transform_of_its_own(tmp_path: Path) -> None:
    declared = folder(tmp_path, f"\n      archive: {FILE}", destinations="warehouse, archive")
    file = declared / "syncs/settlement.yaml"
    # It can have neither.
    file.write_text(file.read_text().replace("  expectations: settlement\n", "").partition("derived:")[0])
    made = of_ledger(tuple(name for name in NAMES if name != "rate"))
    plan = compile_plan(
        load_declarations(declared),
        "settlement",
        Survey((ACCOUNT, LEDGER)),
        transforms={("ledger_entry", FILE): made},
    )
    (archive,) = plan.cuts_only
    assert plan.at_destination(archive.name).table("ledger_entry").definition == made.target
    assert plan.streamed.at_destination("warehouse").table("ledger_entry").definition == LEDGER


@pytest.mark.parametrize(
    ("transform", "line", "path", "cause"),
    [
        (f"\n      lake: {FILE}\n      leak: {FILE}", 10, ".leak", "'leak' is no destination of this sync"),
        ("\n      lake: include/transforms/none.sql", 9, ".lake", "there is no file include/transforms/none.sql"),
        ("\n      lake: none.sql", 8, "", "is no file of a transform"),
        ("\n      lake: 7", 8, "", "a mapping is no transform: write a file for all destinations"),
        (" [lake]", 8, "", "a list is no transform"),
        (" {}", 8, "", "a mapping is no transform"),
    ],
)
def test_a_mapping_that_is_wrong_is_reported_with_its_line(
    tmp_path: Path, transform: str, line: int, path: str, cause: str
) -> None:
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(folder(tmp_path, transform, destinations="warehouse, lake, archive"))
    # The archive could have no expectations either.
    (fault,) = [one for one in caught.value.faults if one.path.startswith("tables")]
    assert cause in fault.cause
    assert (fault.line, fault.path) == (line, f"tables[1].transform{path}")


def test_a_column_that_one_destination_lacks_is_reported_with_that_destination(tmp_path: Path) -> None:
    made = of_ledger(tuple(name for name in NAMES if name != "amount"))
    with pytest.raises(DeclarationsInvalid) as caught:
        masked_lake(tmp_path, analysed={("ledger_entry", FILE): made})
    assert {fault.path for fault in caught.value.faults} == {"reconcile.control_totals[0].sum", "derived[0].sum"}
    cause = "in destination `lake`: table ledger_entry has no column `amount`"
    assert {fault.cause for fault in caught.value.faults} == {cause}


def test_a_check_of_a_column_that_one_destination_lacks_is_reported_with_that_destination(tmp_path: Path) -> None:
    made = of_ledger(tuple(name for name in NAMES if name != "rate"))
    declared = folder(tmp_path, f"\n      lake: {FILE}")
    (declared / "expectations/settlement.yaml").write_text(SUITE.replace("{column: id}", "{column: rate}"))
    with pytest.raises(DeclarationsInvalid) as caught:
        survey = Survey((ACCOUNT, LEDGER))
        compile_plan(load_declarations(declared), "settlement", survey, transforms={("ledger_entry", FILE): made})
    (fault,) = caught.value.faults
    assert (fault.file.parent.name, fault.line) == ("expectations", 3)
    assert fault.cause == "in destination `lake`: table ledger_entry has no column `rate`"


def test_a_change_for_one_destination_alters_the_table_there_alone(tmp_path: Path) -> None:
    made = of_ledger(NAMES)
    before = masked_lake(tmp_path, analysed={("ledger_entry", FILE): made})
    (column, *others) = made.columns
    other = replace(made, columns=(replace(column, type="int"), *others))
    after = masked_lake(tmp_path, analysed={("ledger_entry", FILE): other})
    for name, found in (("warehouse", []), ("lake", ["ledger_entry"])):
        assert altered(before.of_stream(name), after.held_by(name), ListChange()) == found
        assert altered(before.of_stream(name), after.held_by(name), ListChange(again=("ledger_entry",))) == []


ROWS = [(1, "secret", None, None), (2, None, None, None)]


class Readers:
    """Of `kinds.bulk.TableReaders`: two rows of CLIENT, and how often they were read."""

    reads = 0

    def open_at_barrier(self) -> None: ...

    def rows(self, number: int, *, proven: Callable[[str], None]) -> TableRows:
        self.reads += 1
        proven("p")
        return ArrowRows(schema_of(CLIENT), iter([batch_of(CLIENT, [row]) for row in ROWS]))

    def close(self) -> None: ...


class Kept:
    """Of a kind of destination: keeps what it loads, by destination."""

    powers = SinkPowers(Atomic.SYNC, native_copy=True)

    def __init__(self) -> None:
        self.rows: dict[str, list[tuple[object, ...]]] = {}

    def load(self, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
        assert isinstance(rows, ArrowRows)
        assert rows.schema == schema_of(place.table)
        found = [row for batch in rows.batches for row in rows_of(place.table, batch)]
        self.rows[destination.name] = found
        return len(found)


def item(targets: Mapping[str, RowTransform | None]) -> CopyItem:
    def target(name: str, transform: RowTransform | None) -> CopyTarget:
        table = CLIENT if transform is None else transform.planned
        return CopyTarget(StagedPlace(table, "stage", "client_1"), DestinationPlan(name, "x", name, name), transform)

    read = BulkRead(CLIENT, Segment("client"), 0, Form.TYPED)
    return CopyItem(read, tuple(target(name, one) for name, one in targets.items()))


def test_a_table_is_read_once_and_each_transform_is_applied_once_for_its_destinations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kind, readers, applied = Kept(), Readers(), list[RowTransform]()
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda _name: kind)
    from seamline.bulk import copy

    def counted(transform: RowTransform, source: Table, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        applied.append(transform)
        return target_rows(transform, source, batches)

    target_rows = copy.target_rows
    monkeypatch.setattr(copy, "target_rows", counted)
    copied = copy_one(readers, 0, item({"lake": MASKED, "warehouse": None, "second_lake": MASKED}), {})
    assert [(one.destination, one.rows, one.error) for one in copied] == [
        ("lake", 2, None), ("warehouse", 2, None), ("second_lake", 2, None)
    ]  # fmt: skip
    assert (readers.reads, applied) == (1, [MASKED])
    assert [row[1] for row in kind.rows["warehouse"]] == ["secret", None]
    assert [row[1] for row in kind.rows["lake"]] == ["secret", "-"]
    assert kind.rows["second_lake"] == kind.rows["lake"]


def test_a_transform_without_a_result_ends_its_own_destination_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, failed = Kept(), dict[str, SeamlineError]()
    monkeypatch.setattr("seamline.bulk.copy.sink_kind", lambda _name: kind)

    def no_result(*_: object) -> Iterator[pa.RecordBatch]:
        raise SchemaConflict("no result", hint="mend it")

    monkeypatch.setattr("seamline.bulk.copy.target_rows", no_result)
    copied = copy_one(Readers(), 0, item({"lake": MASKED, "warehouse": None}), failed)
    assert [(one.destination, one.rows, one.error is None) for one in copied] == [
        ("lake", 0, False), ("warehouse", 2, True)
    ]  # fmt: skip
    assert set(failed) == {"lake"}
    with pytest.raises(SchemaConflict, match="no result"):
        copy_one(Readers(), 0, item({"lake": MASKED}), {})


class TypedView(ArrowView):
    """Of `kinds.bulk.ReadsTypedRows`: a source's view of CLIENT."""

    def typed_rows(self, table: Table, segment: Segment) -> Iterator[pa.RecordBatch]:
        return iter([batch_of(table, ROWS)])


def test_places_loads_and_views_are_of_the_table_as_each_destination_holds_it(monkeypatch: pytest.MonkeyPatch) -> None:
    kind, created = Kept(), dict[str, Sequence[Table]]()

    def create(name: str, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        created[name] = tables
        return {table.name: StagedPlace(table, "stage", f"{table.name}_1") for table in tables}

    def load_area(destination: DestinationPlan, *, run_id: str) -> object:
        return SimpleNamespace(create=lambda tables: create(destination.name, tables), drop=lambda: None)

    forms: list[Form] = []

    def read_here(reads: Sequence[BulkRead]) -> Readers:
        forms.extend(read.form for read in reads)
        return Readers()

    view = TypedView(position(1), {CLIENT: lambda: iter([batch_of(CLIENT, ROWS)])})
    opened = OpenedSource([view], position(1), datetime.now(UTC), "p", read_here)
    found = SimpleNamespace(load_area=load_area, load=kind.load, powers=kind.powers)
    for module in ("read", "copy"):
        monkeypatch.setattr(f"seamline.bulk.{module}.sink_kind", lambda _name: found)
    source = SimpleNamespace(open_for_tasks=lambda *_: nullcontext(opened))
    monkeypatch.setattr("seamline.bulk.read.source_kind", lambda _name: source)
    warehouse = DestinationPlan("warehouse", "x", "w", "w")
    lake = replace(warehouse, name="lake", transforms=(("client", MASKED),))
    plan = replace(sync_plan(), destinations=(warehouse, lake), tables=(TablePlan("client", None, CLIENT),))
    run = Run("r", plan.sync, RunKind.ONBOARD, None, plan, RunState.RUNNING)
    reader = RunReader(run, tasks=lambda _: 1, copying_of=lambda *_: NoCopying())
    with reader.open_read([TableRead(CLIENT, Segment("client"))]) as read:
        loads = {one.name: [load.table for load in read.stage(one)] for one in (warehouse, lake)}
        columns = {one.name: read.views_for(one)[0].columns("client") for one in (warehouse, lake)}
        digests = {one.name: read.digest(Segment("client"), one) for one in (warehouse, lake)}
    assert created == loads == {"warehouse": [CLIENT], "lake": [MASKED.planned]}
    assert forms == [Form.TYPED]
    assert (columns["warehouse"][3], columns["lake"][2]) == ("limit", "large")
    assert digests["warehouse"].rows == digests["lake"].rows == 2
    assert digests["warehouse"] != digests["lake"]
