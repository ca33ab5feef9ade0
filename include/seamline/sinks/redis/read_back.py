"""Tables as views of a comparison, and what a stream has met: the power `ReadsBack`."""

from collections.abc import Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta

from seamline.adapters.connections import resolve
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.lake.fetched_view import FetchedView
from seamline.sinks.redis import ledger as ledgers
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.options import rows_max_of
from seamline.sinks.redis.reading import fetched
from seamline.sinks.redis.session import Session, open_session, translated, unpacked

# Of each table.
_LISTED = 1_000


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[FetchedView]:
    """`count` views of one read. TransientError where the stream commits meanwhile, which a held one does not."""
    stream, keys = plan.stream_id(destination.name), Keyspace.of(destination)
    with closing(_session(destination)) as session:
        ledger = ledgers.read_ledger(session, keys, stream)
        if ledger is None:
            raise Refused(
                f"{stream} was never published in {destination.name}", hint="onboard the sync first", sync=plan.sync
            )
        _, offset, epoch = (one.encode() for one in ledgers.place_of(ledger))
        tables = {one.definition: keys.live(destination.namespace, one.name) for one in plan.tables}
        at = (epoch, offset)
        view = fetched(session, tables, ledger.position, ledger=keys.of_stream("ledger", stream), at=at)
    return [view] * count


def open_staged(
    destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
) -> list[FetchedView]:
    keys = Keyspace.of(destination)
    with closing(_session(destination)) as session:
        tables = {load.table: keys.staged(load.staged_as) for load in loads}
        view = fetched(session, tables, position, ledger=keys.own("nothing"))
    return [view] * count


def findings_of(
    destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """As `kinds.sink.ReadsBack.findings`."""
    with closing(_session(destination)) as session:
        found = kept_findings(session, Keyspace.of(destination), stream)
    if not found:
        return (), after
    new = [one for at, one in found if at.number > after.number or (after.kept_at and at.kept_at > after.kept_at)]
    counts: dict[str, int] = {}
    listed = []
    for one in new:
        counts[one.table] = counts.get(one.table, 0) + 1
        if counts[one.table] <= _LISTED:
            listed.append(one)
    return tuple(listed), found[-1][0]


def kept_findings(session: Session, keys: Keyspace, stream: StreamId) -> list[tuple[FindingsReported, Finding]]:
    """All that are not over, in their order, each with its number and time."""
    with translated("read the findings of the stream"):
        found = [unpacked(one) for one in session.client.lrange(keys.of_stream("findings", stream), 0, -1)]
    return [(FindingsReported(number, _moment(at)), Finding(*rest)) for number, at, *rest in found]


def _moment(microseconds: str) -> str:
    at = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=int(microseconds))
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"


def _session(destination: DestinationPlan) -> Session:
    return open_session(resolve(destination.connection), rows_max=rows_max_of(destination), name="seamline-reads")
