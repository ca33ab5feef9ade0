"""A view of the destination as it stands once the log's changes are applied to it."""

import base64
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline import registry
from seamline.domain.catalogue import Table
from seamline.domain.changes import TableChanges
from seamline.domain.digest import Segment
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.log_patch import PatchedRow, TablePatch
from seamline.domain.measure import Measure
from seamline.domain.verdict import Verdict
from seamline.kinds.arrow_view import ArrowView
from seamline.kinds.found import logged_kind
from seamline.plan.model import SourcePlan
from seamline.ports import ReadView
from seamline.ports.shadow import Shadows
from seamline.sync.bucket_search import Sides
from seamline.sync.comparison import Work
from seamline.sync.patched_view import PatchedTable, PatchedView, patched
from seamline.sync.reconcile import compare_table
from seamline.sync.self_test import self_test
from seamline.values.build import batch_of
from seamline.values.log_patch import patch_of
from tests.log_topic import position, sync_plan
from tests.toast_log import NOTE, ToastHistory, compacted, toast_histories
from tests.unit.memory_views import ENTRY, RATE, MemoryView, Row, entries


def view_of(table: Table, rows: list[Row], patch: TablePatch | SeamlineError) -> PatchedView:
    def give() -> TablePatch:
        if isinstance(patch, SeamlineError):
            raise patch
        return patch

    return PatchedView(MemoryView(table, rows), {table.name: PatchedTable(table, give)}, position(9))


def entry(number: int, amount: str | None) -> Row:
    return {"id": number, "currency": "EUR", "amount": None if amount is None else Decimal(amount), "memo": None}


def texts(number: int, amount: str | None) -> dict[str, str | None]:
    return {"id": str(number), "currency": "EUR", "amount": amount, "memo": None}


MEASURED = Segment("entry")


@pytest.mark.parametrize("measure", list(Measure))
def test_what_does_not_add_up_is_counted_by_its_values_or_not_said(
    measure: Measure, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [entry(1, "1.0000"), entry(2, "5.0000"), entry(3, None)]
    changes = {"1": PatchedRow(None), "2": PatchedRow(texts(2, "0.0000")), "3": PatchedRow(texts(3, None))}
    after = MemoryView(ENTRY, [entry(2, "0.0000"), entry(3, None)])
    asked: dict[str, Any] = {"columns": ("amount",), "by": ("currency",), "measure": measure}
    view = view_of(ENTRY, rows, TablePatch(changes))
    assert view.totals(MEASURED, **asked) == after.totals(MEASURED, **asked)
    # The last value may be gone.
    gone = view_of(ENTRY, rows[::2], TablePatch({"1": PatchedRow(None)}))
    assert gone.totals(MEASURED, **asked) == MemoryView(ENTRY, rows[2:]).totals(MEASURED, **asked)
    monkeypatch.setattr("seamline.sync.patched_view._COUNTED_ROWS_MAX", 1)
    with pytest.raises(SeamlineError, match=r"comes from all rows|does not follow from the log"):
        gone.totals(MEASURED, **asked)
    same = view_of(ENTRY, rows, TablePatch({"1": PatchedRow({**texts(1, "1.0000"), "memo": "m"})}))
    assert same.totals(MEASURED, **asked) == MemoryView(ENTRY, rows).totals(MEASURED, **asked)


def test_a_value_that_the_log_left_out_is_the_stored_one_also_under_another_key() -> None:
    rows = [{"id": 1, "currency": "EUR", "amount": Decimal(3), "memo": "stored"}]
    lacking = {**texts(7, "3.0000"), "memo": None}
    moved, unknown = PatchedRow(lacking, ("memo",), "1"), PatchedRow(lacking, ("memo",), "8")
    view = view_of(ENTRY, rows, TablePatch({"1": PatchedRow(None), "7": moved, "8": unknown}))
    assert view.rows("entry", ["1", "7", "8"]) == {"7": {**lacking, "memo": "stored"}}
    assert view.totals(MEASURED, columns=(), by=()) == {(): (1, None)}
    assert view.key_span("entry") == (1, 7)


def test_summaries_of_floats_are_not_guessed() -> None:
    rows = [{"id": 1, "rate": 0.5}]
    same = view_of(RATE, rows, TablePatch({"1": PatchedRow({"id": "1", "rate": "0.5"})}))
    assert same.float_summaries(Segment("rate"))["rate"].count == 1
    other = view_of(RATE, rows, TablePatch({"1": PatchedRow({"id": "1", "rate": "0.75"})}))
    with pytest.raises(SeamlineError, match="rate changed between both positions"):
        other.float_summaries(Segment("rate"))


def test_a_patch_that_failed_is_asked_for_once_and_answers_nothing() -> None:
    view = view_of(ENTRY, [], TransientError("no decoder"))
    for _ in range(2):
        with pytest.raises(SeamlineError, match="no decoder"):
            view.digests(MEASURED, run_key="k")


def test_a_patch_is_made_of_the_log_s_images_as_the_sink_takes_them() -> None:
    changes = TableChanges("audit", net={b'{"actor":"ann","action":"x"}': 2, b'{"action":"x","actor":"ann"}': -1})
    patch = registry.log_patches(sync_plan())(changes)
    assert [(dict(row), copies) for row, copies in patch.copies.values()] == [({"actor": "ann", "action": "x"}, 1)]


# ---- values that the log leaves out ---------------------------------------------------------------------------------

DECODER = logged_kind("postgres").change_decoder(SourcePlan("bank", "postgres", "bank", "r", "c", "m", "log", "bank"))


def _held(rows: Sequence[Row]) -> list[Row]:
    """As a destination holds them: bytes are no base64."""
    return [{**row, "scan": None if row["scan"] is None else base64.b64decode(row["scan"])} for row in rows]


@given(toast_histories(), st.data())
def test_values_that_the_log_leaves_out_are_the_stored_ones(history: ToastHistory, data: st.DataObject) -> None:
    last = len(history.transactions)
    begin = data.draw(st.integers(0, last))
    end = data.draw(st.integers(begin, last))
    before, after = (MemoryView(NOTE, _held(list(history.states[at].values()))) for at in (begin, end))
    view: ReadView = before
    for changes in compacted(*history.transactions[begin:end]):
        view = view_of(NOTE, before.content, patch_of(NOTE, changes, DECODER))
    segment = Segment(NOTE.name, buckets=4)
    assert view.digests(segment, run_key="k") == after.digests(segment, run_key="k")
    assert Counter(view.row_hashes(segment, run_key="k")) == Counter(after.row_hashes(segment, run_key="k"))
    keys = [str(number) for number in range(5)]
    assert view.rows(NOTE.name, keys) == after.rows(NOTE.name, keys)


# ---- its own shadow copies ------------------------------------------------------------------------------------------


def _in_arrow(rows: list[Row]) -> ArrowView:
    batch = batch_of(ENTRY, [[row[column.name] for column in ENTRY.columns] for row in rows])
    return ArrowView(position(1), {ENTRY: lambda: iter([batch])})


@pytest.mark.parametrize("all_changed", [False, True])
def test_the_self_test_asks_the_destination_itself_where_rows_have_not_changed(all_changed: bool) -> None:
    rows = entries(40)
    after = [{**row, "memo": "newer"} if all_changed or row["id"] < 9 else row for row in rows]
    changed = {str(row["id"]): PatchedRow(_texts_of(row)) for row in after if row["memo"] == "newer"}
    base = _in_arrow(rows)
    view = patched(base, {"entry": PatchedTable(ENTRY, lambda: TablePatch(rows=changed))}, position(9))
    assert isinstance(view, Shadows)
    keys = view.sample("entry", rows=20)
    assert len(keys) == 20
    assert all_changed or not set(keys) & changed.keys()
    source = MemoryView(ENTRY, after, position(9))
    segment = Segment("entry")
    work = Work(ENTRY, segment, segment)
    verdict = compare_table(Sides(ENTRY, source, view, segment, segment, "k"))
    assert verdict.verdict is Verdict.MATCH, verdict.reason
    tested = self_test([work], [verdict], source=source, destination=view)
    assert (tested.planted > 0, tested.missed, tested.others, tested.failed) == (True, (), (), {})


def _texts_of(row: Row) -> dict[str, str | None]:
    amount = None if row["amount"] is None else f"{row['amount']:.4f}"
    return {"id": str(row["id"]), "currency": row["currency"], "amount": amount, "memo": row["memo"]}
