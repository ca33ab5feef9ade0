"""Whole tables on their way in: under keys that no reader looks for, a page of rows at a time."""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any

from seamline.adapters.connections import Connection, resolve
from seamline.domain.catalogue import Table
from seamline.domain.errors import InvariantViolated, Refused, TransientError
from seamline.kinds.bulk import LoadProgress, PostgresCopy, StagedPlace, TableRows
from seamline.plan.model import DestinationPlan
from seamline.sinks.hbase.gateway import Store, open_store
from seamline.sinks.hbase.ledger import now_ms
from seamline.sinks.hbase.places import Place, Places, keys_of, staged_key
from seamline.sinks.hbase.placing import drop_staged
from seamline.sinks.hbase.rows import How, pages_of, scanned, texts_of_rows
from seamline.values.arrow import require_schema

# Other runs' leftovers are dropped when they are older: staged rows may wait days for a signature.
ABANDONED_AFTER_MS = 14 * 86_400_000
_PAGE = 2_000
_SIGNS = re.compile(r"\W+", re.ASCII)
_READABLE_MAX = 30
Staged = Mapping[str, Any]


class LoadedTables:
    """`kinds.bulk.LoadArea` of one attempt of one run."""

    def __init__(self, connection: Connection, destination: DestinationPlan, *, run_id: str) -> None:
        self._connection = connection
        self._places = Places.of(destination)
        self._run = hashlib.sha256(run_id.encode()).hexdigest()[:8]
        self._attempt = secrets.token_hex(4)

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        found = {table.name: StagedPlace(table, "", self._name_of(table)) for table in tables}
        with closing(open_store(self._connection)) as store:
            for own in (self._places.own, self._places.beside):
                store.make(own)
            self._drop_leftovers(store)
            said = json.dumps(
                {"run": self._run, "attempt": self._attempt, "made": now_ms(), "number": 0, "bytes": 0}
            ).encode()
            for place in found.values():
                store.exchange(self._places.own, staged_key(place.name), None, said)
        return found

    def progress(self) -> LoadProgress:
        with closing(open_store(self._connection)) as store:
            mine = [said for _, said in staged_tables(store, self._places) if said["attempt"] == self._attempt]
        return LoadProgress(sum(int(said["bytes"]) for said in mine), (), is_working=False)

    def drop(self) -> None:
        with closing(open_store(self._connection)) as store:
            for name, said in list(staged_tables(store, self._places)):
                if said["attempt"] == self._attempt:
                    drop_staged(store, self._places, name)

    def _drop_leftovers(self, store: Store) -> None:
        """Of this run all but this attempt's tables, of other runs what is old."""
        for name, said in list(staged_tables(store, self._places)):
            if said["run"] == self._run and said["attempt"] != self._attempt:
                drop_staged(store, self._places, name)
        drop_abandoned(store, self._places)

    def _name_of(self, table: Table) -> str:
        mark = hashlib.sha256(table.name.encode()).hexdigest()[:4]
        return f"{_SIGNS.sub('_', table.name)[:_READABLE_MAX]}_{mark}_{self._run}_{self._attempt}"


def open_area(destination: DestinationPlan, *, run_id: str) -> LoadedTables:
    return LoadedTables(resolve(destination.connection), destination, run_id=run_id)


def load(destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
    """`kinds.sink.SinkKind.load`."""
    with closing(open_store(resolve(destination.connection))) as store:
        return load_rows(store, destination, place, rows)


def load_rows(store: Store, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
    """Refused: the place was dropped."""
    if isinstance(rows, PostgresCopy):
        raise InvariantViolated("HBase takes no binary COPY of PostgreSQL", table=place.table.name)
    table, places, count, size = place.table, Places.of(destination), 0, 0
    require_schema(table, rows.schema)
    where, number = places.staged(place.name), _begun(store, places, place)
    store.sweep(where.table, where.prefix, where.end, number)
    for batch in rows.batches:
        for first in range(0, batch.num_rows, _PAGE):
            part = batch.slice(first, _PAGE)
            keys = [where.prefix + key for key in keys_of(table, part)]
            texts = texts_of_rows(table, part)
            for page in pages_of(table, [(How.FRESH, key, row) for key, row in zip(keys, texts, strict=True)]):
                store.write(where.table, number, page)
                size += len(page)
            count += part.num_rows
    known = _of(store, places, place)
    said = json.dumps({**json.loads(known), "bytes": size}).encode()
    store.exchange(places.own, staged_key(place.name), known, said)
    return count


def staged_tables(store: Store, places: Places) -> Iterator[tuple[str, Staged]]:
    first = b"staged/"
    for key, cells in scanned(store, Place(places.own, first)):
        yield key.removeprefix(first).decode(), json.loads(cells["s"])


def drop_abandoned(store: Store, places: Places) -> int:
    """Drop the staged tables of any run that are old; how many."""
    oldest = now_ms() - ABANDONED_AFTER_MS
    old = [name for name, said in staged_tables(store, places) if said["made"] < oldest]
    for name in old:
        drop_staged(store, places, name)
    return len(old)


def _begun(store: Store, places: Places, place: StagedPlace) -> int:
    """A number above all that earlier attempts at these rows have had."""
    known = _of(store, places, place)
    number = max(int(json.loads(known)["number"]), now_ms()) + 2
    said = json.dumps({**json.loads(known), "number": number}).encode()
    if not store.exchange(places.own, staged_key(place.name), known, said):
        raise TransientError(f"{place.name} is loaded by another task", hint="it is tried again")
    return number


def _of(store: Store, places: Places, place: StagedPlace) -> bytes:
    said = store.value(places.own, staged_key(place.name))
    if said is None:
        raise Refused(f"the staged table {place.name} is gone", hint="load it again", table=place.table.name)
    return bytes(said)
