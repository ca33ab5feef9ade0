"""The position a stream stands at while it passes transactions, kept cheap for millions of them."""

from functools import lru_cache

from seamline.domain.errors import InvariantViolated
from seamline.domain.position import BinlogPosition, Position, PostgresPosition, gtid_sequences


class PositionTracker:
    """Starts at the ledger's position; `advance_to` moves it, never backwards."""

    def __init__(self, position: Position) -> None:
        self._position = position
        self._sequences = gtid_sequences(position.gtid) if isinstance(position, BinlogPosition) else {}
        # Only the newest transaction of each GTID domain matters; they are joined when somebody asks.
        self._newest: dict[int, BinlogPosition] = {}

    @property
    def position(self) -> Position:
        for transaction in self._newest.values():
            if isinstance(self._position, BinlogPosition):
                self._position = self._position.advanced_by(transaction)
        self._newest.clear()
        return self._position

    def has_passed(self, transaction: Position) -> bool:
        """Whether this transaction lies at or before the position."""
        if isinstance(transaction, BinlogPosition):
            domain, sequence = _single_gtid(transaction.gtid)
            return self._sequences.get(domain, 0) >= sequence
        if isinstance(self._position, PostgresPosition):
            return self._position.covers(transaction)
        raise InvariantViolated(f"positions of different sources: {transaction} and {self._position}")

    def advance_to(self, transaction: Position) -> None:
        if self.has_passed(transaction):
            return
        if isinstance(transaction, BinlogPosition):
            domain, sequence = _single_gtid(transaction.gtid)
            self._sequences[domain] = sequence
            self._newest[domain] = transaction
        else:
            self._position = PostgresPosition(lsn=transaction.lsn)


# Several questions are asked of each transaction.
@lru_cache(maxsize=16)
def _single_gtid(gtid: str) -> tuple[int, int]:
    """(domain, sequence number) of one transaction's GTID."""
    domain, _, rest = gtid.partition("-")
    sequence = rest.partition("-")[2]
    if not (domain.isdigit() and sequence.isdigit()):
        raise InvariantViolated(f"not the GTID of one transaction: {gtid!r}")
    return int(domain), int(sequence)
