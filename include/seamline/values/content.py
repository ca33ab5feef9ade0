"""The bytes that the values of an Arrow array consist of."""

import numpy as np
import pyarrow as pa


def content_of(values: pa.Array) -> bytes:
    """The bytes of all values, one behind the other; of fixed ones also those that stand where a NULL is."""
    if pa.types.is_fixed_size_binary(values.type):
        width = values.type.byte_width
        return _part(values.buffers()[1], values.offset * width, (values.offset + len(values)) * width)
    offsets = offsets_of(values)
    return _part(values.buffers()[2], offsets[0], offsets[-1])


def offsets_of(values: pa.Array) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    """Where each of the texts or bytes begins, and where the last one ends."""
    if not len(values):
        return np.zeros(1, np.int64)
    return np.frombuffer(values.buffers()[1], np.int64)[values.offset : values.offset + len(values) + 1]


def _part(buffer: pa.Buffer | None, start: int, end: int) -> bytes:
    return buffer.slice(start, end - start).to_pybytes() if buffer is not None and end > start else b""
