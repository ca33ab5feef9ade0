"""Rules of every sink that keeps its ledger in the transaction of its rows, whatever server it writes to."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from seamline.domain.cutover import Boundary
from seamline.domain.errors import Fenced, InvariantViolated, SchemaConflict, SeamlineError
from seamline.domain.ledger import LedgerRow, StreamId, refuse_one_that_went_back
from seamline.ports import Commit, Lease, Progress, Publication


def advanced(before: LedgerRow, progress: Progress, applied_transactions: int, last_marker: str) -> LedgerRow:
    """The ledger once this step is committed."""
    span = progress.span
    return replace(
        before,
        next_offset=span.end,
        position=span.position,
        applied_transactions=applied_transactions,
        committed_ms=span.committed_ms,
        last_marker=last_marker,
        boundaries=tuple(replace(b, ended=b.ended or b.table in progress.ended) for b in before.boundaries),
    )


def with_tables(
    row: LedgerRow, generations: Mapping[str, int], entering: Sequence[Boundary], *, left: Sequence[str]
) -> tuple[LedgerRow, Mapping[str, int]]:
    """The ledger once these tables have entered, each in its next generation, and those of `left` have gone; and the
    last generation of every table that there ever was."""
    fresh = {one.table: replace(one, generation=generations.get(one.table, 0) + 1) for one in entering}
    stay = {one.table: one for one in row.boundaries if one.table not in left}
    numbers = {**generations, **{name: one.generation for name, one in fresh.items()}}
    return replace(row, boundaries=tuple({**stay, **fresh}.values())), numbers


def resolved(found: LedgerRow | None, lease: Lease, progress: Progress, *, confirmed: LedgerRow) -> LedgerRow:
    """`found` does not stand where this span begins. It is returned where this very span was committed before and only
    the answer was lost; else why is raised. `confirmed`: the ledger as this lease last heard of it."""
    if found is None:
        raise _gone(lease.stream)
    refuse_one_that_went_back(found, confirmed=confirmed)
    if found.epoch != lease.epoch:
        raise Fenced(
            f"{lease.stream}: epoch {lease.epoch} is over, the ledger's is {found.epoch}",
            hint="another owner applies this stream: nothing to mend here",
            sync=lease.stream.sync,
        )
    if found.next_offset == progress.span.end and found.topic_id == lease.ledger.topic_id:
        return found
    raise InvariantViolated(
        f"{lease.stream}: span [{progress.span.start}, {progress.span.end}) does not follow the ledger, which "
        f"stands at offset {found.next_offset} of topic {found.topic_id}",
        sync=lease.stream.sync,
        position=str(found.position),
    )


def _gone(stream: StreamId) -> Fenced:
    """No new owner is known; but that of an incremental snapshot goes with its joining, and its worker must end."""
    return Fenced(
        f"{stream}: its ledger is gone",
        hint="it ends once its tables have joined; where the destination was emptied or made again, onboard again",
        sync=stream.sync,
    )


def fenced_or(error: SeamlineError, lease: Lease, read_ledger: Callable[[StreamId], LedgerRow | None]) -> SeamlineError:
    """What happened because a new owner has come is that; then trying again would be wrong."""
    stream = lease.stream
    try:
        row = read_ledger(stream)
    except SeamlineError:
        return error
    if row is None:
        return _gone(stream)
    if row.epoch > lease.epoch:
        return Fenced(f"{stream}: a new owner with epoch {row.epoch} has taken the stream", sync=stream.sync)
    return error


def commit_in_any_order(
    commit: Callable[[dict[str, str]], Commit],
    *,
    refused: Callable[[SchemaConflict], str],
    roll_back: Callable[[], object],
) -> Commit:
    """Commit; begin again with delete-insert for each table whose unique indexes refuse the usual order.

    `commit` is given those tables, each with what was said of its usual order; `refused` says it of an error, or "".
    Nothing is remembered for the next span: most need no other order, and whoever looks at the rows (triggers, foreign
    keys, readers of a binlog) sees an update as an update.
    """
    delete_insert: dict[str, str] = {}
    while True:
        try:
            return commit(delete_insert)
        except SchemaConflict as exc:
            said = "" if exc.table in delete_insert else refused(exc)
            if not said:
                raise
            delete_insert[exc.table] = said
        roll_back()


def commit_of_publish(stream: StreamId, row: LedgerRow | None) -> Commit:
    if row is None:
        raise InvariantViolated(f"{stream} is published but has no ledger")
    return Commit(row)


def row_of_publish(stream: StreamId, known: LedgerRow | None, publication: Publication) -> LedgerRow:
    """The ledger once a publish is done, but for the tables that enter by it. `known`: as it stood before."""
    return LedgerRow(
        stream,
        publication.topic,
        publication.topic_id,
        publication.next_offset,
        publication.position,
        known.epoch + 1 if known else 1,
        known.applied_transactions if known else 0,
        committed_ms=0,
        boundaries=known.boundaries if known else (),
    )


def is_caught_up(snapshot: LedgerRow | None, stream: LedgerRow) -> bool:
    """Whether an incremental snapshot has read the stream's log exactly as far as the stream has."""
    if snapshot is None:
        return False
    return (snapshot.topic_id, snapshot.next_offset) == (stream.topic_id, stream.next_offset)
