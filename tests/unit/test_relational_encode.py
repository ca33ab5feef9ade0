"""Rows as the text of LOAD DATA: what its server would read as a sign of its own stands behind a backslash."""

import re

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from seamline.sinks.relational.encode import document_of, escaped, joined
from seamline.values.arrow import BYTES

READ = {b"t": b"\t", b"n": b"\n", b"0": b"\0", b"r": b"\r", b"\\": b"\\"}
# Few bytes, so that each often meets itself and the others.
VALUES = st.none() | st.text(alphabet="\\\t\n\0\rNtn0é", max_size=6).map(str.encode) | st.binary(max_size=4)


def read(field: bytes) -> bytes | None:
    if field == b"\\N":
        return None
    return re.sub(rb"\\(.)", lambda found: READ[found[1]], field, flags=re.DOTALL)


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[VALUES] * width), min_size=1, max_size=5)))
def test_a_document_is_read_as_the_values_that_were_written(rows: list[tuple[bytes | None, ...]]) -> None:
    columns = [escaped(pa.array([None, *values], BYTES).slice(1)) for values in zip(*rows, strict=True)]
    *lines, rest = document_of(joined(columns)).split(b"\n")
    assert rest == b""
    assert [tuple(map(read, line.split(b"\t"))) for line in lines] == rows
