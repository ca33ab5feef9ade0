"""What a span does to one table: looked at before anything is written, then written."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.places import Place, keys_of
from seamline.sinks.hbase.rows import (
    Cells,
    How,
    Texts,
    Written,
    page_of_keys,
    pages_of,
    rows_of,
    scanned,
    texts_of_rows,
)
from seamline.sinks.lake.batches import findings_of, require_stored
from seamline.values.changes import ChangeBatch, in_effect

_PAGE = 500
Held = dict[bytes, Cells | None]
"""By key what is there, None where no row is."""


@dataclass(slots=True)
class TableSpan:
    """`rows`: by key the last that is written; a key may come in several chunks. `is_emptied`: before these rows."""

    table: Table
    place: Place
    is_emptied: bool = False
    rows: dict[bytes, Written] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)
    _found: Held = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        return not self.rows and not self.is_emptied

    def look(self, store: Store, batches: Sequence[ChangeBatch]) -> None:
        """Read what the changes meet. Diverged: a change leaves out values of a row that is not there."""
        counting = in_effect(batches)
        self.is_emptied = counting[0].truncate_first
        held = Held()
        for batch in counting:
            keys = [self.place.prefix + key for key in keys_of(self.table, batch.rows)]
            origins = self._origins(batch, keys)
            if not self.is_emptied:
                found = _fetched(store, self.place, [*keys, *origins], held)
                self._found |= found
                held |= found
            self.findings += findings_of(self.table, batch, np.array([held.get(key) is not None for key in keys]))
            changed = dict(self._changed(batch, keys, origins, held))
            held |= {key: self._as_cells(row) for key, row in changed.items()}
            self.rows |= changed

    def before(self, store: Store) -> Iterator[tuple[bytes, Cells | None]]:
        """What it writes over, as it was seen; of a table that is emptied all its rows."""
        left = set(self.rows)
        if self.is_emptied:
            for key, cells in scanned(store, self.place):
                left.discard(key)
                yield key, cells
        for key in sorted(left):
            yield key, self._found.get(key)

    def write(self, store: Store, number: int) -> Iterator[None]:
        """Page by page. `number` is the cells' timestamp, and the one before it is for what goes under them. Rows come
        before rows go: a new row under another key has the values of one that goes."""
        if self.is_emptied:
            store.sweep(self.place.table, self.place.prefix, self.place.end, number)
        rows = sorted(self.rows.values(), key=lambda row: row[0] is How.GOES)
        for page in pages_of(self.table, rows):
            store.write(self.place.table, number, page)
            yield

    def _changed(
        self, batch: ChangeBatch, keys: Sequence[bytes], origins: Sequence[bytes], held: Held
    ) -> Iterator[tuple[bytes, Written]]:
        assert batch.deleted is not None
        lacking = 0
        wanting = self._lacks(batch)
        goes = batch.deleted.to_pylist()
        for number, (key, texts) in enumerate(zip(keys, texts_of_rows(self.table, batch.rows), strict=True)):
            if goes[number]:
                yield key, (How.GOES, key, ())
                continue
            if lacks := [place for place, flags in wanting.items() if flags[number]]:
                stored = held.get(origins[number])
                lacking += stored is None
                texts = self._filled(texts, lacks, stored or {})
            yield key, (How.OVER if None in texts else How.FRESH, key, texts)
        require_stored(self.table, lacking=lacking)

    def _filled(self, texts: Texts, lacks: Sequence[int], stored: Cells) -> Texts:
        names = [column.name for column in self.table.columns]
        return [stored.get(names[place]) if place in lacks else text for place, text in enumerate(texts)]

    def _lacks(self, batch: ChangeBatch) -> Mapping[int, list[bool]]:
        """By the place of a column, which rows leave it out."""
        if batch.missing is None:
            return {}
        names = [column.name for column in self.table.columns]
        return {names.index(name): batch.is_missing(name).to_pylist() for name in batch.missing.schema.names}

    def _origins(self, batch: ChangeBatch, keys: Sequence[bytes]) -> list[bytes]:
        """Of each row the key of the one that has the values it leaves out."""
        if batch.missing is None:
            return []
        if batch.old_key is None:
            return list(keys)
        given = batch.old_key.column(0).is_valid().to_pylist()
        old = iter(keys_of(self.table, batch.old_key.filter(pa.array(given))))
        return [self.place.prefix + next(old) if is_given else key for key, is_given in zip(keys, given, strict=True)]

    def _as_cells(self, row: Written) -> Cells | None:
        how, _, texts = row
        if how is How.GOES:
            return None
        pairs = zip(self.table.columns, texts, strict=True)
        return {column.name: text for column, text in pairs if text is not None}


def _fetched(store: Store, place: Place, keys: Sequence[bytes], known: Held) -> Held:
    """What is there of these keys that are not known."""
    wanted = [key for key in dict.fromkeys(keys) if key not in known]
    held = Held()
    for first in range(0, len(wanted), _PAGE):
        page = wanted[first : first + _PAGE]
        found = dict(rows_of(bytes(store.rows(place.table, page_of_keys(page))), place.table))
        held |= {key: found.get(key) for key in page}
    return held
