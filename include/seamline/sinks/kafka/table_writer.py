"""What happens to one table, as records of its topic in the commit that has begun."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import repeat
from zlib import crc32

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table, fingerprint
from seamline.kinds.held_rows import fill, keys_of, require_copies
from seamline.kinds.row_json import documents, row_texts, text_of
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.formats import CHANGES, COMES, GOES, READ, Form
from seamline.sinks.kafka.transaction import BY_KEY, Headers, Record, Sending
from seamline.values.changes import ChangeBatch, in_effect

Change = tuple[bytes, bytes | None, bytes]
"""What happens, as in the header `op`; a key; a row, of which nothing is read where a row with a key goes."""
_OPS = {None: CHANGES, False: COMES, True: CHANGES}


class TableWriter:
    """`held`: the committed rows of the table, read when it is first called; only some changes need them. `headers`: of
    each record beside its own. `partitions`: of the topic. `records`: how many were sent."""

    def __init__(
        self,
        table: Table,
        topic: str,
        transactions: Sending,
        *,
        partitions: int,
        form: Form,
        headers: Headers,
        held: Callable[[], Fold],
    ) -> None:
        self._table = table
        self._topic = topic
        self._partitions = partitions
        self._transactions = transactions
        self._form = form
        said: Headers = [*headers, ("schema", fingerprint(table).encode())]
        self._headers: dict[bytes, Headers] = {op: [("op", op), *said] for op in (COMES, CHANGES, GOES, READ)}
        self._held = held
        # Set while what is sent changes what later rows of the commit are looked up in.
        self._fold: Fold | None = None
        self.records = 0

    def apply(self, batches: Sequence[ChangeBatch]) -> None:
        """What a truncate has undone is not sent. Diverged: a change needs a row that is not held."""
        counting = in_effect(batches)
        if any(_needs_held(batch) for batch in counting):
            self._fold = self._held()
        if counting[0].truncate_first:
            self._empty()
        for batch in counting:
            if self._table.is_keyed:
                self._keyed(batch)
            else:
                self._keyless(batch)

    @property
    def known_ends(self) -> tuple[int, ...]:
        """Up to where the rows that were held were read; () where they were not needed."""
        return self._fold.ends if self._fold is not None else ()

    def replace(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Make the table hold these rows and no others, by what differs from the held ones; how many rows they are."""
        held = self._held()
        is_known, count = not held.is_empty, 0
        for rows in batches:
            texts = row_texts(self._table, self._table.columns, rows)
            count += len(texts)
            if self._table.is_keyed:
                self._replace_keyed(keys_of(self._table, rows), texts, held if is_known else None)
            else:
                self._replace_keyless(Counter(texts), held if is_known else None)
        self._fold = held
        if is_known:
            self._empty()
        return count

    # ---- with a key -------------------------------------------------------------------------------------------------

    def _keyed(self, batch: ChangeBatch) -> None:
        keys = keys_of(self._table, batch.rows)
        rows = self._whole_rows(batch, keys)
        deleted = batch.deleted.to_pylist() if batch.deleted is not None else []
        met = batch.met.to_pylist() if batch.met is not None else []
        ops = (GOES if goes else _OPS[is_met] for goes, is_met in zip(deleted, met, strict=True))
        self._send(zip(ops, keys, rows, strict=True))
        if self._fold is not None:
            changes = zip(keys, rows, deleted, strict=True)
            self._fold.put((key, None if goes else row) for key, row, goes in changes)

    def _whole_rows(self, batch: ChangeBatch, keys: list[bytes]) -> list[bytes]:
        """With the values that the log left out."""
        if batch.missing is None or self._fold is None:
            return row_texts(self._table, self._table.columns, batch.rows)
        found = documents(self._table, self._table.columns, batch.rows)
        fill(batch, found, keys, self._fold)
        return [text_of(document) for document in found]

    def _replace_keyed(self, keys: list[bytes], rows: list[bytes], held: Fold | None) -> None:
        pairs = zip(keys, rows, strict=True)
        self._send((READ, key, row) for key, row in pairs if held is None or held.row(key) != row)
        if held is not None:
            held.put((key, None) for key in keys)

    # ---- without a key ----------------------------------------------------------------------------------------------

    def _keyless(self, batch: ChangeBatch) -> None:
        texts = row_texts(self._table, self._table.columns, batch.rows)
        copies = batch.copies.to_pylist() if batch.copies is not None else []
        # One row may stand in a batch twice, written differently, with copies of either sign.
        net = Counter[bytes]()
        for row, count in zip(texts, copies, strict=True):
            net[row] += count
        for row, count in net.items():
            if count < 0:
                require_copies(self._table, row, -count, self._fold)
            self._send_copies(COMES if count > 0 else GOES, row, abs(count))
        if self._fold is not None:
            self._fold.count(net)

    def _replace_keyless(self, rows: Counter[bytes], held: Fold | None) -> None:
        for row, copies in rows.items():
            there = min(copies, held.copies(row)) if held is not None else 0
            self._send_copies(READ, row, copies - there)
            if held is not None and there:
                held.count({row: -there})

    def _send_copies(self, op: bytes, row: bytes, copies: int) -> None:
        self._send(repeat((op, None, row), copies))

    # ---- both -------------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        """Let every row go that the fold still has."""
        assert self._fold is not None, "whoever empties the table has read it"
        left = self._left(self._fold)
        self._send((GOES, key, row) for key, row, copies in left for _ in range(copies))
        self._fold.empty()

    def _left(self, fold: Fold) -> Iterator[tuple[bytes | None, bytes, int]]:
        if self._table.is_keyed:
            return ((key, key, 1) for key in fold.held_keys())
        return ((None, row, copies) for row, copies in fold.counted())

    def _send(self, changes: Iterable[Change]) -> None:
        self.records += self._transactions.send(self._topic, self._records(changes), table=self._table.name)

    def _records(self, changes: Iterable[Change]) -> Iterator[Record]:
        written, gone, headers = self._form.written, self._form.gone, self._headers
        for op, key, row in changes:
            if op == GOES and key is not None:
                for value in gone(key):
                    yield key, value, headers[op], BY_KEY
            else:
                where = BY_KEY if key is not None else partition_of(row, self._partitions)
                yield key, written(op, row), headers[op], where


def partition_of(row: bytes, partitions: int) -> int:
    """Of a row without a key, by its CRC-32 as in zip files: all of its copies come and go in one partition, so in an
    order."""
    return crc32(row) % partitions


def _needs_held(batch: ChangeBatch) -> bool:
    if batch.truncate_first or batch.missing is not None:
        return True
    return batch.copies is not None and bool(pc.any(pc.less(batch.copies, 0)).as_py())
