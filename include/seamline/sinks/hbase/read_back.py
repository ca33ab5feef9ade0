"""Tables as views of a comparison, and what a stream has met: the power `ReadsBack`."""

from collections.abc import Sequence
from contextlib import closing

from seamline.adapters.connections import resolve
from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.errors import Refused, TransientError
from seamline.domain.ledger import StreamId
from seamline.domain.position import Position
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Load
from seamline.sinks.hbase.findings import kept_findings
from seamline.sinks.hbase.gateway import open_store
from seamline.sinks.hbase.ledger import Ledgers, State, require_placed
from seamline.sinks.hbase.places import Places
from seamline.sinks.hbase.reading import fetched
from seamline.sinks.lake.fetched_view import FetchedView

# Of each table.
_LISTED = 1_000


def open_live(plan: SyncPlan, destination: DestinationPlan, count: int) -> list[FetchedView]:
    """`count` views of one read. TransientError: the stream commits meanwhile, which a held one does not, or an
    interrupted commit has left rows ahead of the ledger, or a publish has not ended."""
    stream, places = plan.stream_id(destination.name), Places.of(destination)
    with closing(open_store(resolve(destination.connection))) as store:
        ledgers = Ledgers(store, places)
        known = ledgers.read(stream)
        if known is None:
            raise Refused(
                f"{stream} was never published in {destination.name}", hint="onboard the sync first", sync=plan.sync
            )
        _require_at_rest(known.state)
        tables = {one.definition: places.live(destination.namespace, one.name) for one in plan.tables}
        view = fetched(store, tables, known.state.row.position)
        after = ledgers.read(stream)
        if after is None or after.stored != known.stored:
            view.close()
            raise TransientError(
                f"the ledger of {stream} moved while its tables were read", hint="hold the stream, and try again"
            )
    return [view] * count


def open_staged(
    destination: DestinationPlan, loads: Sequence[Load], count: int, *, position: Position
) -> list[FetchedView]:
    places = Places.of(destination)
    with closing(open_store(resolve(destination.connection))) as store:
        view = fetched(store, {load.table: places.staged(load.staged_as) for load in loads}, position)
    return [view] * count


def findings_of(
    destination: DestinationPlan, stream: StreamId, *, after: FindingsReported
) -> tuple[tuple[Finding, ...], FindingsReported]:
    """As `kinds.sink.ReadsBack.findings`."""
    places = Places.of(destination)
    with closing(open_store(resolve(destination.connection))) as store:
        known = Ledgers(store, places).read(stream)
        found = kept_findings(store, places, known) if known else []
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


def _require_at_rest(state: State) -> None:
    require_placed(state)
    if state.before:
        raise TransientError(
            f"rows of {state.row.stream} are ahead of its ledger, up to offset {state.ahead}: a commit was interrupted",
            hint="let the stream go on, and try again",
            sync=state.row.stream.sync,
        )
