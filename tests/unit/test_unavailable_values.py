"""Values that the log left out come from where the source has them, however the log is cut into spans."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.changes import KeyedChange
from seamline.domain.cutover import BoundaryGate
from seamline.domain.errors import LogCorrupted
from seamline.domain.log import RowChange, Transaction
from seamline.domain.unavailable_values import (
    UNAVAILABLE,
    UNAVAILABLE_BYTES,
    UNAVAILABLE_PAIR,
    filled,
    filled_row,
    lacks_values,
    may_lack_values,
)
from seamline.sync.compaction import compact
from tests.log_topic import AUDIT, STREAM, position, publication, sync_plan
from tests.memory_sink import MemoryDestination, MemorySink
from tests.toast_log import (
    NOTE,
    STAND_IN,
    Change,
    NoteStream,
    Row,
    ToastHistory,
    ToastLog,
    compacted,
    key_of,
    note,
    to_json,
    toast_histories,
)

LEFT_OUT = {"title": "t", **STAND_IN}


def changes_of(*changes: Change) -> dict[bytes, KeyedChange]:
    """What one span of these changes does, by key."""
    (found,) = compacted(ToastLog().transaction(*changes))
    return {change.key: change for change in found.keyed}


def row_of(change: KeyedChange) -> Row:
    return dict(json.loads(change.row))


def opened() -> tuple[NoteStream, MemoryDestination]:
    destination = MemoryDestination()
    sink = MemorySink(sync_plan([NOTE]), destination)
    sink.publish(STREAM, (), publication=publication([NOTE]))
    return NoteStream(sink), destination


def stored(destination: MemoryDestination) -> dict[int, Row]:
    return {row["id"]: row for row in destination.rows(NOTE)}


# ---- images --------------------------------------------------------------------------------------------------------


def test_pairs_that_the_log_left_out_come_as_the_only_pair() -> None:
    assert lacks_values(to_json({"id": 1, "attributes": UNAVAILABLE_PAIR}))
    assert not lacks_values(to_json({"id": 1, "attributes": UNAVAILABLE_PAIR.replace("}", ',"a":"1"}')}))


@pytest.mark.parametrize("stand_in", [UNAVAILABLE, UNAVAILABLE_BYTES])
def test_an_image_lacks_values_only_where_a_whole_value_is_the_stand_in(stand_in: str) -> None:
    assert lacks_values(to_json({"id": 1, "body": stand_in}))
    for own in (f"they say {stand_in}", f"{stand_in} ", [stand_in], {"a": stand_in}):
        image = to_json({"id": 1, "body": own})
        assert may_lack_values(image), "only a look at the values can say"
        assert not lacks_values(image)
    for full in ({}, {"id": 1, "body": None}, {"id": 1, "body": stand_in[:-1]}):
        assert not may_lack_values(to_json(full))
        assert not lacks_values(to_json(full))


def test_a_column_that_is_named_like_the_stand_in_lacks_nothing() -> None:
    assert not lacks_values(to_json({UNAVAILABLE: 1}))


def test_only_stand_ins_are_filled_and_from_their_own_columns() -> None:
    row = {"id": 2, "body": UNAVAILABLE, "scan": UNAVAILABLE_BYTES, "title": None, "new": UNAVAILABLE}
    older = {"id": 1, "body": "b", "scan": None, "title": "old", "gone": 1}
    expected = {"id": 2, "body": "b", "scan": None, "title": None, "new": UNAVAILABLE}
    assert filled_row(row, older) == expected
    assert json.loads(filled(to_json(row), to_json(older))) == expected
    assert row["body"] == UNAVAILABLE, "the row itself is left as it was"


def test_what_an_older_image_lacks_too_stays_left_out() -> None:
    image = filled(to_json({"body": UNAVAILABLE, "scan": UNAVAILABLE_BYTES}), to_json({**STAND_IN, "scan": "AA=="}))
    assert json.loads(image) == {"body": UNAVAILABLE, "scan": "AA=="}
    assert lacks_values(image)


@given(
    st.dictionaries(
        st.sampled_from("abcd"),
        st.none()
        | st.booleans()
        | st.integers(-(2**63), 2**63 - 1)
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
    )
)
def test_filling_changes_no_value_that_was_there(row: Row) -> None:
    image = filled(to_json({**row, "body": UNAVAILABLE}), to_json({"body": "large", "a": "other"}))
    assert json.loads(image) == {**row, "body": "large"}


# ---- one span of a keyed table ---------------------------------------------------------------------------------------


def test_an_update_alone_stays_partial_and_is_its_own_row_s() -> None:
    (change,) = changes_of((note(1), note(1, "new"))).values()
    assert row_of(change) == {"id": 1, **LEFT_OUT, "title": "new"}
    assert (change.taken_from, change.is_delete, change.met_row) == (None, False, True)


def test_an_update_takes_what_it_lacks_from_the_update_before_it() -> None:
    (change,) = changes_of(
        (note(1, "a", "large one ü"), note(1, "b", "large two\n")),
        (note(1, "b", "large two\n"), note(1, "c", "large two\n")),
    ).values()
    assert row_of(change) == {"id": 1, "title": "c", "body": "large two\n", "scan": UNAVAILABLE_BYTES}


def test_an_update_after_an_insert_has_all_values() -> None:
    (change,) = changes_of((None, note(1)), (note(1), note(1, "b")), (note(1, "b"), note(1, "c"))).values()
    assert row_of(change) == note(1, "c")
    assert (change.met_row, change.taken_from) == (False, None)


def test_a_value_that_became_null_is_not_taken_from_before() -> None:
    (change,) = changes_of(
        (None, note(1)), (note(1), note(1, body=None)), (note(1, body=None), note(1, "b", None))
    ).values()
    assert row_of(change) == note(1, "b", None)


def test_a_change_of_key_takes_what_it_lacks_from_its_old_row_in_the_span() -> None:
    found = changes_of((None, note(1)), (note(1), note(2)))
    assert found[key_of(1)].is_delete
    assert row_of(found[key_of(2)]) == note(2)
    assert (found[key_of(2)].taken_from, found[key_of(2)].met_row) == (None, False)


def test_a_change_of_key_of_a_stored_row_names_the_old_key() -> None:
    change = changes_of((note(1), note(2)))[key_of(2)]
    assert row_of(change) == {"id": 2, **LEFT_OUT}
    assert change.taken_from == key_of(1)


def test_a_change_of_key_that_lacks_nothing_names_no_old_key() -> None:
    change = changes_of((note(1, body="small", scan=None), note(2, body="small", scan=None)))[key_of(2)]
    assert (row_of(change), change.taken_from) == (note(2, body="small", scan=None), None)


def test_a_change_of_key_takes_some_values_from_the_span_and_some_from_the_stored_row() -> None:
    older = note(1, body="large two\n")
    change = changes_of((note(1), older), (older, {**older, "id": 2}))[key_of(2)]
    assert row_of(change) == {"id": 2, "title": "t", "body": "large two\n", "scan": UNAVAILABLE_BYTES}
    assert change.taken_from == key_of(1)


def test_a_chain_of_changes_of_key_names_the_first_of_its_keys() -> None:
    found = changes_of((note(1), note(2)), (note(2), note(3, "new")), (note(3, "new"), note(4, "new")))
    assert [key for key, change in found.items() if change.is_delete] == [key_of(1), key_of(2), key_of(3)]
    assert row_of(found[key_of(4)]) == {"id": 4, **LEFT_OUT, "title": "new"}
    assert found[key_of(4)].taken_from == key_of(1)


def test_a_chain_that_changes_a_value_on_its_way_keeps_it() -> None:
    between = note(2, body="large two\n")
    found = changes_of((note(1), between), (between, {**between, "id": 3}))
    assert row_of(found[key_of(3)]) == {"id": 3, "title": "t", "body": "large two\n", "scan": UNAVAILABLE_BYTES}
    assert found[key_of(3)].taken_from == key_of(1)


def test_an_update_after_a_change_of_key_still_names_the_old_key() -> None:
    change = changes_of((note(1), note(2)), (note(2), note(2, "new")))[key_of(2)]
    assert row_of(change) == {"id": 2, **LEFT_OUT, "title": "new"}
    assert change.taken_from == key_of(1)


def test_two_rows_that_exchange_their_keys_name_each_other() -> None:
    found = changes_of((note(1, "a"), note(9, "a")), (note(2, "b"), note(1, "b")), (note(9, "a"), note(2, "a")))
    assert (row_of(found[key_of(1)])["title"], found[key_of(1)].taken_from) == ("b", key_of(2))
    assert (row_of(found[key_of(2)])["title"], found[key_of(2)].taken_from) == ("a", key_of(1))
    assert found[key_of(9)].is_delete


def test_a_row_that_is_deleted_and_inserted_again_has_nothing_of_the_old_one() -> None:
    (change,) = changes_of(
        (note(1), None), (None, note(1, "b", "small", None)), (note(1, "b", "small", None), note(1, "c", "small", None))
    ).values()
    assert (row_of(change), change.is_delete, change.met_row) == (note(1, "c", "small", None), False, True)


def test_a_key_that_becomes_another_row_s_has_nothing_of_the_deleted_one() -> None:
    change = changes_of(
        (note(1), note(1, body="large two\n")), (note(1, body="large two\n"), None), (note(2), note(1, "b"))
    )[key_of(1)]
    assert row_of(change) == {"id": 1, **LEFT_OUT, "title": "b"}
    assert (change.taken_from, change.met_row) == (key_of(2), True)


def test_a_row_of_a_table_without_a_key_must_have_all_its_values() -> None:
    def transaction(after: Row) -> Transaction:
        image = to_json(after)
        row = RowChange(3, "audit", "u", None, b"{}", image, is_partial=may_lack_values(image))
        return Transaction("1", 0, 5, position(1), [row])

    tables = {AUDIT.name: AUDIT}
    with pytest.raises(LogCorrupted, match="offset 3: a change of kind u without all values of the row") as caught:
        compact([transaction({"actor": "x", "action": UNAVAILABLE})], tables=tables, gate=BoundaryGate({}))
    assert caught.value.table == "audit"
    assert "REPLICA IDENTITY FULL" in caught.value.hint
    own = {"actor": "x", "action": f"said {UNAVAILABLE}"}
    assert compact([transaction(own)], tables=tables, gate=BoundaryGate({}))["audit"].net == {
        b"{}": -1,
        to_json(own): 1,
    }


# ---- the promise ---------------------------------------------------------------------------------------------------


@given(toast_histories(), st.sets(st.integers(1, 5)))
def test_any_cut_of_a_log_that_leaves_values_out_gives_the_source_s_rows(history: ToastHistory, cuts: set[int]) -> None:
    stream, destination = opened()
    last = 0
    for cut in [*sorted(cut for cut in cuts if cut < len(history.transactions)), len(history.transactions)]:
        stream.transactions(*history.transactions[last:cut])
        last = cut
        assert stored(destination) == history.states[cut]
    assert destination.findings == []


@given(toast_histories(is_plain=True), st.sets(st.integers(1, 5)))
def test_any_chunks_of_a_transaction_that_leaves_values_out_give_the_source_s_rows(
    history: ToastHistory, cuts: set[int]
) -> None:
    stream, destination = opened()
    transactions, last, batches = history.transactions, 0, []
    for chunk, cut in enumerate(sorted(cut for cut in cuts if cut < len(transactions)), 1):
        batches += compacted(*transactions[last:cut], chunk=chunk)
        last = cut
    stream.batches(*batches, *compacted(*transactions[last:]))
    assert stored(destination) == history.states[-1]
    assert destination.findings == []
