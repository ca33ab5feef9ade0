"""What load, stream and comparison share of a transform: its plan, rows, changes, and what the log leaves out."""

from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.cut_job import CutJob
from seamline.domain.digest import Segment
from seamline.domain.errors import Refused, SchemaConflict
from seamline.domain.row_transform import Expression, RowTransform
from seamline.domain.unavailable_values import STAND_INS
from seamline.kinds.arrow_view import ArrowView
from seamline.kinds.found import logged_kind
from seamline.plan.compile import compile_plan, config_hash
from seamline.plan.document import plan_from_json, plan_to_json
from seamline.plan.explain import explain
from seamline.plan.list_change import ListChange, altered
from seamline.plan.model import SourcePlan, SyncPlan, TablePlan
from seamline.ports import Survey
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from seamline.transform.changes import TransformedChanges
from seamline.transform.rows import made_of, target_rows
from seamline.values.build import batch_of, rows_of
from seamline.values.changes import change_batch
from tests.log_topic import position
from tests.unit.declared import SYNC, write_declarations
from tests.unit.test_plan import ACCOUNT, LEDGER

FILE = "include/transforms/ledger_entry.sql"
QUERY = "SELECT id, booked_at, amount, currency FROM ledger_entry"
CLIENT = Table(
    "client",
    (
        Column("id", Kind.INTEGER, "bigint", nullable=False, length=64),
        Column("memo", Kind.STRING, "text", toastable=True),
        Column("born", Kind.DATE, "date"),
        Column("limit", Kind.DECIMAL, "numeric(5,2)", precision=5, scale=2),
    ),
    ("id",),
)


def column(table: Table, name: str) -> Expression:
    spark = {Kind.INTEGER: "bigint", Kind.STRING: "string", Kind.DATE: "date", Kind.DECIMAL: "decimal(5,2)"}
    return Expression("column", spark.get(table.column(name).kind, ""), value=name)


def literal(text: str, of: str = "string") -> Expression:
    return Expression("literal", of, value=text)


# id, the memo or what stands for none, and whether the limit is above 100.
MASKED = RowTransform(
    "include/transforms/client.sql",
    "SELECT id, coalesce(memo, '-') AS memo, `limit` > 100 AS large, born FROM client",
    Table(
        "client",
        (
            CLIENT.columns[0],
            Column("memo", Kind.STRING, "string", nullable=False, toastable=True),
            Column("large", Kind.BOOLEAN, "boolean"),
            CLIENT.columns[2],
        ),
        ("id",),
    ),
    (
        column(CLIENT, "id"),
        Expression("coalesce", "string", (column(CLIENT, "memo"), literal("-"))),
        Expression("greater", "boolean", (column(CLIENT, "limit"), literal("100.00", "decimal(5,2)"))),
        column(CLIENT, "born"),
    ),
)


def declared(tmp_path: Path, text: str = QUERY, **changed: str) -> Path:
    sync = SYNC.replace("{name: ledger_entry,", f"{{name: ledger_entry, transform: {FILE},")
    files = {"syncs/settlement.yaml": changed.get("sync", sync), "transforms/ledger_entry.sql": text}
    return write_declarations(tmp_path, files)


def of_ledger(names: tuple[str, ...], text: str = QUERY) -> RowTransform:
    """A transform that passes these columns on."""
    target = replace(LEDGER, columns=tuple(LEDGER.column(name) for name in names))
    return RowTransform(FILE, text, target, tuple(column(LEDGER, name) for name in names))


def test_a_plan_carries_the_query_and_what_was_found_of_it(tmp_path: Path) -> None:
    declarations = load_declarations(declared(tmp_path))
    plan = compile_plan(declarations, "settlement")
    assert plan.table("ledger_entry").transform == RowTransform(FILE, QUERY)
    assert plan_from_json(plan_to_json(plan)) == plan
    assert f"table ledger_entry: rows as {FILE} makes them" in explain(plan)
    with pytest.raises(Refused, match=f"no analysis of {FILE}"):
        _ = replace(plan.table("ledger_entry"), table=LEDGER).target
    analysed = replace(plan, tables=(TablePlan("client", None, CLIENT, MASKED),))
    assert plan_from_json(plan_to_json(analysed)) == analysed
    (held,) = analysed.at_destination("warehouse").tables
    assert held == TablePlan("client", None, MASKED.target)


def test_a_plan_carries_the_text_of_a_job_and_the_tables_that_it_names(tmp_path: Path) -> None:
    text = "SELECT l.currency, count(*) AS n FROM ledger_entry l JOIN account ON id = account_id GROUP BY 1"
    sync = SYNC.replace("table: ledger_entry, sum: amount, by: [account_id, currency]", f"transform: {FILE}")
    before = declared(tmp_path / "before")

    def plan_with(query: str) -> SyncPlan:
        files = {"syncs/settlement.yaml": sync, "transforms/ledger_entry.sql": query}
        return compile_plan(load_declarations(write_declarations(tmp_path / "after", files)), "settlement")

    plan = plan_with(text)
    (derived,) = plan.derived
    assert derived.job == CutJob(FILE, text, ("account", "ledger_entry"))
    assert derived.bases == ("account", "ledger_entry")
    assert plan_from_json(plan_to_json(plan)) == plan
    assert f"derived daily_balance: rows as {FILE} makes them of account, ledger_entry" in explain(plan)
    assert plan.only(["account", "ledger_entry"]).derived == plan.derived
    assert plan.only(["ledger_entry"]).derived == ()
    assert plan_with(f"{text} HAVING n > 1").config_hash != plan.config_hash
    sync = sync.replace(f"transform: {FILE}", f"transform: {FILE}, table: account")
    with pytest.raises(DeclarationsInvalid, match="write it without `table`, `sum` and `by`"):
        plan_with(text)
    assert '"job"' not in plan_to_json(compile_plan(load_declarations(before), "settlement"))


def test_a_plan_without_a_transform_is_the_text_that_it_was(tmp_path: Path) -> None:
    plan = compile_plan(load_declarations(write_declarations(tmp_path)), "settlement")
    assert "transform" not in plan_to_json(plan)


def test_a_changed_query_is_another_configuration(tmp_path: Path) -> None:
    first = config_hash(load_declarations(declared(tmp_path)), "settlement")
    assert config_hash(load_declarations(declared(tmp_path, QUERY + "\n")), "settlement") != first


@pytest.mark.parametrize(
    ("file", "text", "cause"),
    [
        ("include/transforms/ledger_entri.sql", QUERY, "there is no file include/transforms/ledger_entri.sql"),
        ("transforms/ledger_entry.sql", QUERY, "is no file of a transform: write include/transforms/<name>.sql or .py"),
        (FILE, " \n", "is empty"),
    ],
)
def test_a_file_that_is_no_transform_is_reported_with_its_line(
    tmp_path: Path, file: str, text: str, cause: str
) -> None:
    sync = SYNC.replace("{name: ledger_entry,", f"{{name: ledger_entry, transform: {file},")
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(declared(tmp_path, text, sync=sync))
    (fault,) = caught.value.faults
    assert (fault.line, fault.path) == (6, "tables[1].transform")
    assert cause in fault.cause
    if "entri" in file:
        assert fault.cure == f"Did you mean `{FILE}`?"


def test_business_date_and_totals_are_of_the_columns_that_the_query_makes(tmp_path: Path) -> None:
    declarations = load_declarations(declared(tmp_path))
    survey = Survey((ACCOUNT, LEDGER))
    names = tuple(one.name for one in LEDGER.columns)
    whole = of_ledger(names)
    plan = compile_plan(declarations, "settlement", survey, transforms={("ledger_entry", FILE): whole})
    assert plan.table("ledger_entry").target == whole.target
    without = of_ledger(tuple(name for name in names if name != "amount"))
    computed = replace(whole, columns=tuple(
        Expression("coalesce", one.type, (one, one)) if one.value == "booked_at" else one for one in whole.columns
    ))  # fmt: skip
    for transform, cause in ((without, "no column `amount`"), (computed, f"`booked_at` is computed by {FILE}")):
        with pytest.raises(DeclarationsInvalid, match=cause):
            compile_plan(declarations, "settlement", survey, transforms={("ledger_entry", FILE): transform})


def test_another_query_is_an_altered_table_unless_it_is_loaded_again_with_the_same_columns(tmp_path: Path) -> None:
    plan = compile_plan(load_declarations(declared(tmp_path)), "settlement")
    table = TablePlan("client", None, CLIENT, MASKED)
    known = replace(plan, tables=(table,))
    said = replace(MASKED.columns[1], args=(MASKED.columns[1].args[0], literal("?")))
    # The text may be the same: what Spark makes of it is not, as another day's `DATE 'today'`.
    other = replace(MASKED, columns=(MASKED.columns[0], said, *MASKED.columns[2:]))
    now = replace(plan, tables=(replace(table, transform=other),))
    none = replace(plan, tables=(replace(table, transform=None),))
    assert altered(known, known, ListChange()) == []
    assert altered(known, now, ListChange()) == ["client"]
    assert altered(known, now, ListChange(again=("client",))) == []
    assert altered(known, none, ListChange(again=("client",))) == ["client"]
    rewritten = replace(MASKED, text=f"-- a comment\n{MASKED.text}")
    assert altered(known, replace(plan, tables=(replace(table, transform=rewritten),)), ListChange()) == []
    assert table.fingerprint != now.tables[0].fingerprint


def test_rows_are_computed_and_passed_on_and_a_condition_takes_some_out() -> None:
    batch = batch_of(CLIENT, [(1, None, date(2000, 1, 1), Decimal("100.01")), (2, "m", None, Decimal("99"))])
    made = made_of(MASKED, CLIENT, batch)
    assert rows_of(MASKED.planned, made) == [(1, "-", True, date(2000, 1, 1)), (2, "m", False, None)]
    large = replace(MASKED, condition=MASKED.columns[2])
    (rows,) = target_rows(large, CLIENT, iter([batch]))
    assert rows.column("id").to_pylist() == [1]


@pytest.mark.parametrize("row", [(1, "m", None, Decimal("NaN")), (1, "m", float("inf"), Decimal(1))], ids=str)
def test_a_special_value_is_passed_on_and_is_no_input(row: tuple[object, ...]) -> None:
    batch = batch_of(CLIENT, [row])
    if row[2] is None:
        with pytest.raises(SchemaConflict, match="column limit of client holds a value"):
            made_of(MASKED, CLIENT, batch)
    else:
        assert rows_of(MASKED.planned, made_of(MASKED, CLIENT, batch))[0][3] == float("inf")


@pytest.fixture
def decoder() -> TransformedChanges:
    source = SourcePlan("bank", "postgres", "bank", "r", "c", "m", "log", "connector", schema="public")
    return TransformedChanges(logged_kind("postgres").change_decoder(source), {"client": (CLIENT, MASKED)})


def image(memo: str, limit: str = "1.00", number: int = 1) -> bytes:
    return f'{{"id": {number}, "memo": "{memo}", "born": null, "limit": "{limit}"}}'.encode()


def test_a_value_that_the_log_leaves_out_stays_left_out_of_what_is_computed_from_it(
    decoder: TransformedChanges,
) -> None:
    left_out = KeyedChange(b'{"id": 1}', False, True, image(STAND_INS[0]), 7)
    changes = TableChanges("client", changes_in=1)
    changes.keyed = [left_out]
    batch = change_batch(MASKED.planned, changes, decoder)
    assert batch.is_missing("memo").to_pylist() == [True]
    assert batch.rows.column("memo").to_pylist() == [None], "and not what the query makes of NULL"
    assert batch.rows.column("large").to_pylist() == [False]


def test_a_change_of_key_that_leaves_a_value_out_names_the_row_that_has_it(decoder: TransformedChanges) -> None:
    moved = KeyedChange(b'{"id": 1}', False, True, image(STAND_INS[0]), 7)
    moved.taken_from = b'{"id": 4}'
    changes = TableChanges("client", changes_in=1)
    changes.keyed = [moved]
    batch = change_batch(MASKED.planned, changes, decoder)
    assert batch.old_key is not None
    assert batch.old_key.column("id").to_pylist() == [4]


LARGE = replace(
    MASKED,
    target=replace(MASKED.planned, columns=(MASKED.planned.columns[0], MASKED.planned.columns[2])),
    columns=(MASKED.columns[0], MASKED.columns[2]),
    condition=MASKED.columns[2],
)


def test_a_row_that_the_condition_does_not_accept_goes_and_nobody_knows_whether_it_was_there(
    decoder: TransformedChanges,
) -> None:
    filtering = TransformedChanges(decoder.decoder, {"client": (CLIENT, LARGE)})
    changes = TableChanges("client", changes_in=3)
    changes.keyed = [
        KeyedChange(f'{{"id": {number}}}'.encode(), is_delete, True, image("m", limit, number), number)
        for number, is_delete, limit in ((1, False, "100.01"), (2, False, "99.00"), (3, True, "200.00"))
    ]
    batch = change_batch(LARGE.planned, changes, filtering)
    assert batch.deleted == pa.array([False, True, True])
    assert batch.met.to_pylist() == [None] * 3
    assert batch.rows.column("id").to_pylist() == [1, 2, 3]
    assert batch.rows.column("large").to_pylist() == [True, None, None]
    assert not batch.expects_deletes


def test_of_a_row_that_is_not_accepted_nothing_is_computed(decoder: TransformedChanges) -> None:
    """Here it would end the stream: the limit is not a number below 1,000."""
    narrow = Expression("cast", "decimal(4,1)", (column(CLIENT, "limit"),))
    small = Expression("less", "boolean", (column(CLIENT, "limit"), literal("100.00", "decimal(5,2)")))
    target = replace(
        LARGE.planned, columns=(CLIENT.columns[0], Column("large", Kind.DECIMAL, "decimal(4,1)", precision=3, scale=1))
    )
    transform = replace(
        LARGE, target=target, columns=(LARGE.columns[0], replace(narrow, type="decimal(3,1)")), condition=small
    )
    filtering = TransformedChanges(decoder.decoder, {"client": (CLIENT, transform)})
    changes = TableChanges("client", changes_in=1)
    changes.keyed = [KeyedChange(b'{"id": 1}', False, True, image("m", "999.99"), 7)]
    assert change_batch(target, changes, filtering).deleted == pa.array([True])
    batch = batch_of(CLIENT, [(1, None, None, Decimal("999.99"))])
    assert [rows.num_rows for rows in target_rows(transform, CLIENT, iter([batch]))] == [0]
    with pytest.raises(SchemaConflict, match="has no result"):
        made_of(transform, CLIENT, batch)


def test_of_a_table_without_a_key_each_image_is_accepted_or_not(decoder: TransformedChanges) -> None:
    keyless, target = replace(CLIENT, key=()), replace(LARGE.planned, key=())
    filtering = TransformedChanges(decoder.decoder, {"client": (keyless, replace(LARGE, target=target))})
    changes = TableChanges("client", changes_in=2)
    changes.net = {image("m", "100.01"): 2, image("m", "99.00"): -1}
    batch = change_batch(target, changes, filtering)
    assert (batch.copies, batch.rows.num_rows) == (pa.array([2]), 1)


def test_a_row_that_goes_is_known_by_its_key(decoder: TransformedChanges) -> None:
    changes = TableChanges("client", changes_in=1)
    changes.keyed = [KeyedChange(b'{"id": 1}', True, True, image("m"), 7)]
    batch = change_batch(MASKED.planned, changes, decoder)
    assert batch.rows.column("id").to_pylist() == [1]
    assert batch.deleted == pa.array([True])


def test_nothing_is_computed_of_a_row_that_goes(decoder: TransformedChanges) -> None:
    """Here it would end the stream: the log has its key alone, and the branch of NULL does not take that key."""
    narrow = Expression("cast", "tinyint", (column(CLIENT, "id"),))
    is_small = Expression("less", "boolean", (column(CLIENT, "limit"), literal("100.00", "decimal(5,2)")))
    either = Expression("case", "tinyint", (is_small, literal("0", "tinyint"), narrow))
    target = replace(
        MASKED.planned, columns=(CLIENT.columns[0], Column("code", Kind.INTEGER, "tinyint", nullable=False, length=8))
    )
    for condition in (None, Expression("less", "boolean", (either, literal("9", "tinyint")))):
        transform = replace(MASKED, target=target, columns=(MASKED.columns[0], either), condition=condition)
        decoding = TransformedChanges(decoder.decoder, {"client": (CLIENT, transform)})
        changes = TableChanges("client", changes_in=1)
        changes.keyed = [
            KeyedChange(b'{"id": 5000}', True, True, image("m", "1.00", 5000), 7),
            KeyedChange(b'{"id": 5001}', False, True, image("m", "1.00", 5001), 8),
        ]
        batch = change_batch(target, changes, decoding)
        assert batch.deleted == pa.array([True, False])
        assert batch.rows.column("id").to_pylist() == [5000, 5001]
        assert batch.rows.column("code").to_pylist() == [None, 0]


def test_a_value_that_the_log_leaves_out_and_no_expression_needs_stops_no_filter(decoder: TransformedChanges) -> None:
    filtering = TransformedChanges(decoder.decoder, {"client": (CLIENT, LARGE)})
    changes = TableChanges("client", changes_in=1)
    changes.keyed = [KeyedChange(b'{"id": 1}', False, True, image(STAND_INS[0], "100.01"), 7)]
    batch = change_batch(LARGE.planned, changes, filtering)
    assert batch.deleted == pa.array([False])
    assert batch.missing is None
    assert batch.rows.column("large").to_pylist() == [True]


def test_totals_of_rows_in_arrow_are_exact() -> None:
    wide = Table("t", (Column("x", Kind.DECIMAL, "numeric(38,10)", precision=38, scale=10),))
    rows = batch_of(wide, [(Decimal("12345678901234567890.1234567891"),), (Decimal("0.0000000002"),)])
    view = ArrowView(position(1), {wide: lambda: iter([rows])})
    found = view.totals(Segment("t"), columns=["x"], by=())
    assert found == {(): (2, Decimal("12345678901234567890.1234567893"))}
