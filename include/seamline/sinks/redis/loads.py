"""Whole tables on their way in: under keys that no reader knows, a page of rows at a time."""

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing

import pyarrow as pa

from seamline.adapters.connections import Connection, resolve
from seamline.domain.catalogue import PARK_IT, Table
from seamline.domain.errors import InvariantViolated, Refused, SchemaConflict
from seamline.kinds.bulk import LoadProgress, PostgresCopy, StagedPlace, TableRows
from seamline.plan.model import DestinationPlan
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.options import rows_max_of
from seamline.sinks.redis.removing import drop_rows, drop_staged
from seamline.sinks.redis.rows import names_of, staged_rows
from seamline.sinks.redis.scripts import STAGE_ROWS
from seamline.sinks.redis.session import Session, open_session, packed, translated
from seamline.values.arrow import require_schema

# Other runs' leftovers are dropped when they are older: staged rows may wait days for a signature.
ABANDONED_AFTER_S = 14 * 86_400
_PAGE, _PAGE_BYTES = 2_000, 8 << 20
# What one argument may be (`proto-max-bulk-len`), less what stands beside a row.
ROW_MAX = (512 << 20) - (1 << 20)
_SIGNS = re.compile(r"\W+")
_READABLE_MAX = 30


class LoadedTables:
    """`kinds.bulk.LoadArea` of one attempt of one run."""

    def __init__(self, connection: Connection, destination: DestinationPlan, *, run_id: str) -> None:
        self._connection = connection
        self._keys = Keyspace.of(destination)
        self._rows_max = rows_max_of(destination)
        self._run = hashlib.sha256(run_id.encode()).hexdigest()[:8]
        self._attempt = secrets.token_hex(4)

    def create(self, tables: Sequence[Table]) -> Mapping[str, StagedPlace]:
        places = {table.name: StagedPlace(table, "", self._name_of(table)) for table in tables}
        with closing(self._session()) as session:
            self._drop_leftovers(session)
            with translated("make staged tables"):
                of = {"run": self._run, "attempt": self._attempt, "made": int(session.client.time()[0])}
                for place in places.values():
                    session.client.hset(self._keys.own("staged"), place.name, json.dumps(of))
        return places

    def progress(self) -> LoadProgress:
        with closing(self._session()) as session, translated("look at staged tables"):
            written = session.fields(self._keys.own("written"))
            mine = [name for name, of in staged_tables(session, self._keys).items() if of["attempt"] == self._attempt]
        return LoadProgress(sum(int(written.get(name, 0)) for name in mine), (), is_working=False)

    def drop(self) -> None:
        with closing(self._session()) as session:
            for name, of in staged_tables(session, self._keys).items():
                if of["attempt"] == self._attempt:
                    drop_staged(session, self._keys, name)

    def _drop_leftovers(self, session: Session) -> None:
        """Of this run all but this attempt's tables, of other runs what is old."""
        for name, of in staged_tables(session, self._keys).items():
            if of["run"] == self._run and of["attempt"] != self._attempt:
                drop_staged(session, self._keys, name)
        drop_abandoned(session, self._keys)

    def _name_of(self, table: Table) -> str:
        mark = hashlib.sha256(table.name.encode()).hexdigest()[:4]
        return f"{_SIGNS.sub('_', table.name)[:_READABLE_MAX]}_{mark}_{self._run}_{self._attempt}"

    def _session(self) -> Session:
        return open_session(self._connection, rows_max=self._rows_max)


def open_area(destination: DestinationPlan, *, run_id: str) -> LoadedTables:
    return LoadedTables(resolve(destination.connection), destination, run_id=run_id)


def load(destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
    """`kinds.sink.SinkKind.load`."""
    with closing(open_session(resolve(destination.connection), rows_max=rows_max_of(destination))) as session:
        return load_rows(session, destination, place, rows)


def load_rows(session: Session, destination: DestinationPlan, place: StagedPlace, rows: TableRows) -> int:
    if isinstance(rows, PostgresCopy):
        raise InvariantViolated("Redis takes no binary COPY of PostgreSQL", table=place.table.name)
    table, keys, rows_max = place.table, Keyspace.of(destination), rows_max_of(destination)
    require_schema(table, rows.schema)
    where, columns, count = keys.staged(place.name), packed(names_of(table)), 0
    drop_rows(session, where)
    of_all = [where.index, keys.own("staged"), keys.own("written")]
    for batch in rows.batches:
        for page in _pages(batch):
            rows_of_page = staged_rows(table, page)
            _require_taken(table, rows_of_page)
            with translated("write staged rows", table=table.name):
                there = session.run(STAGE_ROWS, of_all, where.rows, columns, rows_of_page, place.name)
            if there < 0:
                raise Refused(f"the staged table {place.name} is gone", hint="load it again", table=table.name)
            count += page.num_rows
            if count > rows_max:
                raise Refused(
                    f"table {table.name} has more than {rows_max} rows, the `rows_max` of destination"
                    f" {destination.name}: they get their place by one script, and Redis serves nobody else meanwhile",
                    hint="raise `rows_max` if its readers can wait that long, or leave the table out",
                    table=table.name,
                )
    return count


def _pages(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Some thousands of rows at a time, fewer of large ones: Redis takes no argument of more than half a gigabyte."""
    for first in range(0, rows.num_rows, _PAGE):
        yield from _parts(rows.slice(first, _PAGE))


def _parts(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    if rows.nbytes <= _PAGE_BYTES or rows.num_rows == 1:
        yield rows
        return
    half = rows.num_rows // 2
    yield from _parts(rows.slice(0, half))
    yield from _parts(rows.slice(half))


def _require_taken(table: Table, rows: bytes) -> None:
    """SchemaConflict: it is one row that Redis takes at no time."""
    if len(rows) > ROW_MAX:
        raise SchemaConflict(
            f"a row of {table.name} has {len(rows)} bytes as texts, and Redis takes {ROW_MAX}",
            hint=f"leave its large column out of the sync, or the table. {PARK_IT}",
            table=table.name,
        )


def staged_tables(session: Session, keys: Keyspace) -> Mapping[str, Mapping[str, object]]:
    with translated("look for staged tables"):
        found = session.fields(keys.own("staged"))
    return {name: json.loads(of) for name, of in found.items()}


def drop_abandoned(session: Session, keys: Keyspace) -> int:
    """Drop the staged tables of any run that are old; how many."""
    with translated("ask for the time"):
        oldest = int(session.client.time()[0]) - ABANDONED_AFTER_S
    old = [name for name, of in staged_tables(session, keys).items() if int(str(of["made"])) < oldest]
    for name in old:
        drop_staged(session, keys, name)
    return len(old)
