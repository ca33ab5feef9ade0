"""What happens to one table, as records of its topic in the commit that has begun."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seamline.domain.catalogue import Table, fingerprint
from seamline.kinds.held_rows import Changed, fill, keys_of, require_copies
from seamline.kinds.row_json import documents, text_of
from seamline.sinks.kafka.fold import Fold
from seamline.sinks.kafka.formats import CHANGES, COMES, GOES, READ, Form
from seamline.sinks.kafka.transaction import Headers, Sending
from seamline.values.changes import ChangeBatch, in_effect

_OPS = {None: CHANGES, False: COMES, True: CHANGES}


class TableWriter:
    """`held`: the committed rows of the table, read when it is first called; only some changes need them. `headers`: of
    each record beside its own. `records`: how many were sent."""

    def __init__(
        self,
        table: Table,
        topic: str,
        transactions: Sending,
        *,
        form: Form,
        headers: Headers,
        held: Callable[[], Fold],
    ) -> None:
        self._table = table
        self._topic = topic
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
            texts = [text_of(one) for one in documents(self._table, self._table.columns, rows)]
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
        found = documents(self._table, self._table.columns, batch.rows)
        keys = keys_of(self._table, batch.rows)
        deleted = batch.deleted.to_pylist() if batch.deleted is not None else []
        met = batch.met.to_pylist() if batch.met is not None else []
        if self._fold is not None:
            fill(batch, found, keys, self._fold)
        changes: list[Changed] = []
        for key, document, goes, is_met in zip(keys, found, deleted, met, strict=True):
            row = None if goes else text_of(document)
            changes.append((key, row))
            self._send(GOES if goes else _OPS[is_met], key, key if row is None else row)
        if self._fold is not None:
            self._fold.put(changes)

    def _replace_keyed(self, keys: list[bytes], rows: list[bytes], held: Fold | None) -> None:
        for key, row in zip(keys, rows, strict=True):
            if held is None or held.row(key) != row:
                self._send(READ, key, row)
        if held is not None:
            held.put((key, None) for key in keys)

    # ---- without a key ----------------------------------------------------------------------------------------------

    def _keyless(self, batch: ChangeBatch) -> None:
        texts = (text_of(one) for one in documents(self._table, self._table.columns, batch.rows))
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
        for _ in range(copies):
            self._send(op, None, row)

    # ---- both -------------------------------------------------------------------------------------------------------

    def _empty(self) -> None:
        """Let every row go that the fold still has."""
        assert self._fold is not None, "whoever empties the table has read it"
        for key, row, copies in self._left(self._fold):
            for _ in range(copies):
                self._send(GOES, key, row)
        self._fold.empty()

    def _left(self, fold: Fold) -> Iterator[tuple[bytes | None, bytes, int]]:
        if self._table.is_keyed:
            return ((key, key, 1) for key in fold.held_keys())
        return ((None, row, copies) for row, copies in fold.counted())

    def _send(self, op: bytes, key: bytes | None, row: bytes) -> None:
        is_gone = op == GOES and key is not None
        for value in self._form.gone(row) if is_gone else (self._form.written(op, row),):
            self._transactions.send(
                self._topic, key=key, value=value, headers=self._headers[op], table=self._table.name
            )
            self.records += 1


def _needs_held(batch: ChangeBatch) -> bool:
    if batch.truncate_first or batch.missing is not None:
        return True
    return batch.copies is not None and bool(pc.any(pc.less(batch.copies, 0)).as_py())
