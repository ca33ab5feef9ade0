"""Taking a stream: the next epoch of its ledger, and the end of the sessions of the epochs before."""

from collections.abc import Sequence

import psycopg

from seamline.databases.postgres import ledger as ledger_tables
from seamline.databases.postgres.client import Session, end_older_sessions, session_name, waiting_for_a_standby
from seamline.domain.errors import Fenced, Refused, TransientError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back


def taken(
    session: Session,
    stream: StreamId,
    destination: str,
    *,
    after_epoch: int | None,
    confirmed: LedgerRow | None,
) -> LedgerRow:
    """The ledger under the next epoch; the session has the name of its owner from then on. Raises as
    `ports.Sink.acquire`. `confirmed`: the ledger as the destination reported it before; None asks for no such thing."""
    known = ledger_tables.read_ledger(session, stream)
    if known is None:
        raise Refused(
            f"destination {destination} holds no ledger of {stream}: nothing was published there",
            hint="onboard the sync first",
            sync=stream.sync,
        )
    if confirmed is not None:
        refuse_one_that_went_back(known, confirmed=confirmed)
    epoch = None
    if after_epoch in (None, known.epoch):
        # A worker that hangs inside a transaction would make us wait for its time-out.
        end_older_sessions(session, stream, below_epoch=known.epoch + 1)
        try:
            epoch = ledger_tables.take_epoch(session, stream, after_epoch=after_epoch)
        except psycopg.errors.LockNotAvailable as exc:
            if waiting := waiting_for_a_standby(session, stream):
                raise _still_committing(stream, waiting) from exc
            raise
    if epoch is None:
        raise Fenced(f"another owner took {stream} meanwhile", sync=stream.sync)
    session.execute(f"SET application_name = '{session_name(stream, epoch).replace(chr(39), chr(39) * 2)}'")
    end_older_sessions(session, stream, below_epoch=epoch)
    row = ledger_tables.read_ledger(session, stream)
    if row is None or row.epoch != epoch:
        raise Fenced(f"another owner took {stream} at the same moment", sync=stream.sync)
    return row


def _still_committing(stream: StreamId, waiting: Sequence[int]) -> TransientError:
    processes = ", ".join(map(str, waiting))
    return TransientError(
        f"{stream} cannot be taken: the COMMIT of process {processes} waits for a synchronous standby that is away",
        hint="bring the standby back, or take it out of synchronous_standby_names: the stream then goes on by itself",
        sync=stream.sync,
    )
