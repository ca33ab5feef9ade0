"""The images of a log as canonical texts: what a comparison holds against what it has read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.values.changes import ChangeDecoder, TakesRowsOut
from seamline.values.digest import key_texts
from seamline.values.segments import texts_of

Texts = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class ImageTexts:
    """`ports.log_images.LogImages` around the decoder that the stream into the same destination has."""

    decoder: ChangeDecoder

    def keys(self, table: Table, keys: Sequence[bytes]) -> Sequence[str]:
        if not keys:
            return []
        of_keys = replace(table, columns=table.key_columns)
        rows, _ = self.decoder.rows(of_keys, keys)
        found: list[str] = key_texts(of_keys, rows).to_pylist()
        return found

    def rows(self, table: Table, images: Sequence[bytes]) -> Sequence[Texts | None]:
        if not images:
            return []
        rows, missing, held = self._held(table, images)
        names = [column.name for column in table.columns]
        found = [dict(zip(names, texts, strict=True)) for texts in texts_of(table.columns, rows)]
        for name, lacks in _columns_of(missing):
            for texts, lack in zip(found, lacks, strict=True):
                if lack:
                    del texts[name]
        if held is None:
            return found
        return [texts if is_held else None for texts, is_held in zip(found, held.to_pylist(), strict=True)]

    def _held(
        self, table: Table, images: Sequence[bytes]
    ) -> tuple[pa.RecordBatch, pa.RecordBatch | None, pa.BooleanArray | None]:
        if isinstance(self.decoder, TakesRowsOut):
            return self.decoder.held(table, images, deleted=[False] * len(images))
        return (*self.decoder.rows(table, images), None)


def _columns_of(missing: pa.RecordBatch | None) -> Sequence[tuple[str, Sequence[bool]]]:
    if missing is None:
        return []
    return [(name, missing.column(name).to_pylist()) for name in missing.schema.names]
