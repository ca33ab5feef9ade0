"""Rows given by their canonical texts, in the typed form: what a repair writes, by the path of a stream's changes."""

import json
from collections.abc import Mapping, Sequence

import pyarrow as pa

from seamline.domain.canonical import floats_agree, is_exact
from seamline.domain.catalogue import Column, Table
from seamline.domain.errors import SeamlineError
from seamline.values.arrow import schema_of
from seamline.values.build import array_of, value_of
from seamline.values.segments import texts_of

Texts = Mapping[str, str | None]


class CanonicalDecoder:
    """`values.changes.ChangeDecoder` of images that are JSON objects of column and canonical text."""

    def rows(self, table: Table, images: Sequence[bytes]) -> tuple[pa.RecordBatch, None]:
        given: list[Texts] = [json.loads(image) for image in images]
        return _batch(table, given), None


def image_of(texts: Texts) -> bytes:
    """What `CanonicalDecoder` reads."""
    return json.dumps(dict(texts)).encode()


def unfit(table: Table, texts: Texts) -> str:
    """Why the row cannot be written just so; "" where it can: turned into values and back it is the same text."""
    try:
        (found,) = texts_of(table.columns, _batch(table, [texts]))
    except SeamlineError as exc:
        return exc.message
    named = zip(table.columns, found, strict=True)
    changed = [column.name for column, text in named if not _is_alike(column, texts[column.name], text)]
    return f"its {', '.join(changed)} would not be written exactly" if changed else ""


def _is_alike(column: Column, one: str | None, other: str | None) -> bool:
    """As a comparison sees it."""
    return one == other if is_exact(column) else floats_agree(column.kind, one, other)


def _batch(table: Table, rows: Sequence[Texts]) -> pa.RecordBatch:
    arrays = [array_of(column, [value_of(column, row[column.name]) for row in rows]) for column in table.columns]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(table))
