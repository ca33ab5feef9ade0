"""What a stream met that its log did not promise: rows beside the ledger, which says how many of them count."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta

from seamline.domain.changes import Finding, FindingsReported
from seamline.domain.ledger import StreamId
from seamline.sinks.hbase.gateway import Store
from seamline.sinks.hbase.ledger import Known, State, now_ms
from seamline.sinks.hbase.places import Place, Places, finding_key
from seamline.sinks.hbase.rows import scanned


def keep_findings(store: Store, places: Places, state: State, found: Sequence[Finding]) -> None:
    """Behind those that the ledger counts, as those of the ledger's epoch. A repeat writes over what it has left."""
    for number, one in enumerate(found, start=state.findings + 1):
        key = finding_key(state.row.stream, number, state.row.epoch)
        said = json.dumps([now_ms(), *asdict(one).values()]).encode()
        store.exchange(places.own, key, store.value(places.own, key), said)


def kept_findings(store: Store, places: Places, known: Known) -> list[tuple[FindingsReported, Finding]]:
    """All that are not over, in their order, each with its number and time."""
    stream, found = known.state.row.stream, []
    for key, cells in scanned(store, _of(places, stream)):
        number, epoch = map(int, key.split(b"/")[-2:])
        at, *rest = json.loads(cells["s"])
        if epoch == known.state.finder(number):
            found.append((FindingsReported(number, _moment(at)), Finding(*rest)))
    return found


def forget_findings(store: Store, places: Places, stream: StreamId, tables: Sequence[str] | None) -> None:
    """Those of these tables, or of all."""
    for key, cells in scanned(store, _of(places, stream)):
        if tables is None or json.loads(cells["s"])[1] in tables:
            store.forget(places.own, key, cells["s"].encode())


def _of(places: Places, stream: StreamId) -> Place:
    return Place(places.own, f"finding/{stream}/".encode())


def _moment(milliseconds: int) -> str:
    at = datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=milliseconds)
    return f"{at:%Y-%m-%dT%H:%M:%S.%fZ}"
