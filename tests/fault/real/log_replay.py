"""The model: what the log topic says up to an offset, read once and carried on, against rows of the destination."""

from collections import Counter, deque
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from seamline.domain.log import LogRecord, RecordKind, RowChange
from seamline.ports import LogReader
from tests.fault.real.bank_plus import MODELLED
from tests.integration.captured import Replayed, apply_transaction
from tests.waiting import wait_until

Row = tuple[Any, ...]
Rows = dict[str, Counter[Row]]

_RECORDS_MAX = 20_000
_COMPARED_SHOWN = 3
# Where the log's texts are not yet what a client of a database gives.
_MEANT: dict[str, dict[int, Any]] = {
    "account": {2: Decimal},
    "entry": {6: Decimal, 7: lambda text: datetime.fromisoformat(text).astimezone(UTC)},
    "seq": {},
    "audit": {},
}


class LogReplay:
    """Reads the log from `start` on; `advance` only goes forward."""

    def __init__(self, reader: LogReader, start: int) -> None:
        self._reader = reader
        self._reader.assign(start)
        self._state = Replayed(meant=meant)
        self._ahead: deque[LogRecord] = deque()
        self._passed = start

    @property
    def transactions(self) -> int:
        return self._state.transactions

    def advance(self, offset: int) -> None:
        """Apply every transaction before `offset`, which must be where a transaction ends."""
        transaction: list[RowChange] = []
        while self._passed < offset:
            if not self._ahead:
                records = wait_until(
                    lambda: self._reader.poll(1.0, _RECORDS_MAX), timeout_s=60, what=f"the log before offset {offset}"
                )
                self._ahead.extend(records)
            record = self._ahead.popleft()
            assert record.offset < offset, f"the ledger stands at {offset}, where no transaction ends"
            self._passed = record.end
            if record.kind is RecordKind.BEGIN:
                # One that is sent again is distinguished from its first row on (ADR 14, 16).
                transaction = []
            elif record.kind is RecordKind.ROWS:
                transaction += record.rows
            elif record.kind is RecordKind.END:
                assert record.total == len(transaction), f"transaction {record.transaction_id} is not whole in the log"
                apply_transaction(self._state, transaction)
                self._state.transactions += 1
                transaction = []
        assert not transaction, f"the ledger stands at {offset}, inside a transaction"

    def row_count(self, table: str) -> int:
        """Rows of a table with a key, which need not be of the stream."""
        return len(self._state.keyed.get(table, {}))

    def rows(self) -> Rows:
        keyed, keyless = self._state.keyed, self._state.keyless
        return {
            table: +keyless[table] if table in keyless else Counter(keyed.get(table, {}).values()) for table in MODELLED
        }

    def close(self) -> None:
        self._reader.close()


def meant(table: str, row: Sequence[Any]) -> Row:
    """A row of the log with values as databases give them."""
    meanings = _MEANT.get(table, {})
    return tuple(meanings[place](value) if place in meanings else value for place, value in enumerate(row))


def differences(found: Rows, wanted: Rows) -> list[str]:
    """Per table what is there and should not be, and what should be and is not; a few rows of each."""
    said = []
    for table in MODELLED:
        # Counter's own comparison goes through its rows in Python, twice.
        if dict.__eq__(found[table], wanted[table]):
            continue
        more, less = found[table] - wanted[table], wanted[table] - found[table]
        if more or less:
            shown = [list(rows.elements())[:_COMPARED_SHOWN] for rows in (more, less)]
            said.append(f"{table}: {more.total()} too many {shown[0]}, {less.total()} missing {shown[1]}")
    return said
