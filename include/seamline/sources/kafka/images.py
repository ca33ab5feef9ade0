"""Images of rows, JSON objects of plain texts, in the typed form."""

import pyarrow as pa

from seamline.adapters.debezium.row_decoder import RowDecoder
from seamline.domain.catalogue import Column
from seamline.values.arrow import TEXT
from seamline.values.plain_texts import values_of


def _text(_: Column) -> pa.DataType:
    return TEXT


DECODER = RowDecoder(_text, values_of)
