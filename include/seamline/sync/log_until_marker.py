"""The log from where a buffer stands up to a marker, transaction by transaction."""

from collections.abc import Callable, Iterator

from seamline.domain.log import Transaction
from seamline.sync.clock import Clock
from seamline.sync.stop_conditions import marker_fields
from seamline.sync.transaction_buffer import TransactionBuffer


def transactions_until(
    buffer: TransactionBuffer,
    marker_id: str,
    *,
    clock: Clock,
    wait_max_s: float,
    look_every_s: float,
    too_large: Callable[[], Exception],
    too_late: Callable[[], Exception],
    backlog_ends: int = 0,
    check: Callable[[], None] = lambda: None,
) -> Iterator[Transaction]:
    """The last one holds the marker. `check` is called before each look at the log, and may raise.

    Raises what `too_large` gives for a transaction that is larger than the buffer, what `too_late` gives where the
    marker has not come within `wait_max_s`, and the buffer's own trouble. `backlog_ends`: an offset of the log up to
    which that time counts only while no record comes.
    """
    deadline, at = clock.now() + wait_max_s, 0
    while True:
        while buffer:
            transaction = buffer.pop()
            at = transaction.end
            yield transaction
            if any(marker_fields(one)["id"] == marker_id for one in transaction.markers):
                return
        if buffer.trouble is not None:
            raise buffer.trouble
        if buffer.has_large_open_transaction:
            raise too_large()
        if buffer.found_records and at < backlog_ends:
            deadline = clock.now() + wait_max_s
        if clock.now() >= deadline:
            raise too_late()
        check()
        buffer.read(look_every_s)
