"""Rows as JSON that Arrow makes of whole columns are, to the byte, what `orjson` makes of each document."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.errors import SchemaConflict
from seamline.kinds import row_json
from seamline.kinds.row_json import documents, row_texts, text_of
from seamline.values.build import batch_of
from tests.contract.every_kind import VALUES, column_of

TEXT = column_of('te"xt', Kind.STRING, "text")
REAL, DOUBLE = column_of("real", Kind.FLOAT, "real"), column_of("double", Kind.DOUBLE, "double precision")
WHOLE, TRUTH = column_of("客户", Kind.INTEGER, "bigint", length=64), column_of("truth", Kind.BOOLEAN, "boolean")
MIXED = Table("mixed", (TEXT, REAL, DOUBLE, WHOLE, TRUTH))
texts = st.text(st.characters(exclude_categories=["Cs"]))
rows = st.tuples(
    st.none() | texts,
    st.none() | st.floats(width=32),
    st.none() | st.floats(),
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.booleans(),
)


def both(table: Table, values: list[tuple[Any, ...]]) -> tuple[list[bytes], list[bytes]]:
    batch = batch_of(table, values)
    return row_texts(table, table.columns, batch), [text_of(one) for one in documents(table, table.columns, batch)]


@given(st.lists(rows, max_size=5))
def test_any_row_has_the_bytes_of_its_document(values: list[tuple[Any, ...]]) -> None:
    new, known = both(MIXED, values)
    assert new == known


@pytest.mark.parametrize("column", VALUES, ids=lambda column: column.name)
def test_every_edge_value_has_the_bytes_of_its_document(column: Column) -> None:
    table = Table("kinds", (replace(column, nullable=True),))
    for value in (*VALUES[column], None):
        try:
            new, known = both(table, [(value,)])
        except SchemaConflict as refused:
            assert "beyond the years 1 to 9999" in refused.message
            continue
        assert new == known


def test_a_text_that_is_not_escaped_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_json, "_escaped", lambda texts: texts)
    new, known = both(MIXED, [('a"b', None, None, None, None)])
    assert new != known


def test_every_sign_of_control_is_escaped_alike() -> None:
    new, known = both(MIXED, [(chr(number), None, None, None, None) for number in range(0xA0)])
    assert new == known
