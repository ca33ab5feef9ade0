"""One session that applies spans: staging tables and prepared statements, made once per table and used ever after."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from seamline.databases.postgres.client import Row, Session, translated
from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged, SeamlineError, TransientError
from seamline.sinks.postgres.arrays import BinaryArray, arrays_of, take_arrays
from seamline.sinks.postgres.delete_insert import delete_and_insert, refused_on_the_way
from seamline.sinks.postgres.encode_changes import Encoded
from seamline.sinks.postgres.statements import LAST_CHUNK, SpanStatements, TableStatements

# Keyed tables only: each staged row looks its key up in the live table's index, nothing else is ever right. A hash join
# reads the whole live table; materializing a table that was empty when the plan was made makes the work quadratic (the
# plan is kept while the table grows). A keyless table has no such one path for everything it does.
_KEYED_ONLY = ("hashjoin", "mergejoin", "seqscan", "material", "memoize")
_KEYED_PLAN = "; ".join(f"SET LOCAL enable_{name} = off" for name in _KEYED_ONLY)
_ANY_PLAN = "; ".join(f"SET LOCAL enable_{name} = on" for name in _KEYED_ONLY)
# A removal looks rows up by their identity's hash, of which the planner knows nothing until the table was analyzed; a
# LIMIT then makes reading the whole table look cheap to it.
_REMOVAL_PLAN = "SET LOCAL enable_seqscan = off"
_CHANGED = "somebody changed the table in the destination: put its rows back as they were"


class SpanApplier:
    """Bound to one session; dies with it."""

    def __init__(self, session: Session, statements: Mapping[str, TableStatements]) -> None:
        self.session = session
        self._statements = statements
        self._staged: set[str] = set()
        take_arrays(session)

    def spill(self, on: TableStatements, batch: Encoded) -> None:
        """Put a chunk of a transaction into the session's table of chunks, and give its moved rows what they lack.

        To be called before anything of the span is written: the rows under the old keys are still there."""
        self.session.execute(on.create_chunks)
        if batch.rows:
            self._copy(on.copy_chunk, batch.document)
        if batch.moved:
            self._fill_moved_chunk(on, batch, batch.chunk)

    def prepare_tables(self, batches: Mapping[str, Sequence[Encoded]]) -> None:
        """Make the staging tables that these batches need, outside of the span's transaction. May be repeated.

        Only tables that once had a large batch have one: each commit empties all of a session that touched any.
        """
        for name, parts in batches.items():
            on = self._statements[name]
            with translated("make a staging table", table=name):
                if name not in self._staged and not _is_sent(parts):
                    self.session.execute(on.create_staging)
                    self._staged.add(name)
                if _has_chunks(parts):
                    # Where the session is not the one that spilled them: none is there, and their count says so.
                    self.session.execute(on.create_chunks)

    def refused_on_the_way(self, exc: SeamlineError) -> str:
        """The error of a unique index against the order in which a keyed table was written; "" for any other error."""
        return refused_on_the_way(exc, self._statements.get(exc.table))

    def apply(
        self,
        batches: Mapping[str, Sequence[Encoded]],
        *,
        between: Callable[[], None],
        delete_insert: Mapping[str, str],
    ) -> tuple[list[Finding], int]:
        """Apply the batches inside the open transaction.

        `between` is called once, after the first table's rows. `delete_insert`: tables that are written in the other
        order, and what was said of the first one. Returns the findings that are kept and their total.
        """
        findings: list[Finding] = []
        total = 0
        keyed = [name for name in batches if self._statements[name].table.is_keyed]
        keyless = [name for name in batches if not self._statements[name].table.is_keyed]
        for step, (names, plan) in enumerate(((keyed, _KEYED_PLAN), (keyless, _ANY_PLAN))):
            if not names:
                continue
            if step == 0 or keyed:
                self.session.execute(plan)
            for name in names:
                with translated("apply a span", table=name):
                    on, said = self._statements[name], delete_insert.get(name, "")
                    kept, found = self._apply_table(on, batches[name], said)
                findings += kept
                total += found
                if name == next(iter([*keyed, *keyless])):
                    between()
        return findings, total

    def _apply_table(self, on: TableStatements, batches: Sequence[Encoded], said: str) -> tuple[list[Finding], int]:
        if any(batch.truncate_first for batch in batches):
            # DELETE and not TRUNCATE: a reader sees the rows until the commit, and none of them after it.
            self.session.execute(f"DELETE FROM {on.live}")
        if not any(batch.rows for batch in batches):
            return [], 0
        if _is_sent(batches):
            rows = _Rows(on, on.sent, arrays_of(batches[0].document, on.array_types))
        else:
            self._bring(on, batches)
            rows = _Rows(on, on.staged, None)
        if on.table.is_keyed:
            if any(batch.lacking for batch in batches):
                self._require_no_orphans(rows)
            return self._merge(rows, said, with_deletes=any(batch.expects_deletes for batch in batches))
        self._change_multiset(rows)
        return [], 0

    def _bring(self, on: TableStatements, batches: Sequence[Encoded]) -> None:
        """Into the staging table, by way of the table of chunks where there are any."""
        if _has_chunks(batches):
            self._gather(on, batches)
            return
        (batch,) = batches
        self._copy(on.copy_into(on.staging), batch.document)
        if batch.moved:
            # Two tables without an index are joined here, as in `_gather`.
            self.session.execute(_ANY_PLAN)
            self._note_moved(on, batch)
            self.session.execute(on.fill_moved_from_live(on.staging), prepare=False)
            self._require_no_moved_orphans(on, on.moved_orphans(on.staging))
            self.session.execute(_KEYED_PLAN)

    def _gather(self, on: TableStatements, batches: Sequence[Encoded]) -> None:
        """The chunks and the rest of a large transaction, joined."""
        # Large relations are joined here, which a plan by the live table's index has no way for.
        self.session.execute(_ANY_PLAN)
        for batch in batches:
            if batch.rows and not batch.chunk:
                self._copy(on.copy_into(on.chunks), batch.document)
                if batch.moved:
                    self._fill_moved_chunk(on, batch, LAST_CHUNK)
        self._require_all_rows(on, sum(batch.rows for batch in batches))
        # What was spilled before a TRUNCATE is undone by it.
        first = max((batch.chunk or LAST_CHUNK for batch in batches if batch.truncate_first), default=0)
        self.session.execute(on.gather_chunks(first=first))
        if any(batch.lacking for batch in batches):
            self._fill_from_chunks(on, first)
        self.session.execute(f"DROP TABLE {on.chunks}")
        if on.table.is_keyed:
            self.session.execute(_KEYED_PLAN)

    def _fill_from_chunks(self, on: TableStatements, first: int) -> None:
        found = self.session.execute(on.lacks_values, prepare=False).fetchone()
        for place, is_lacking in enumerate(found or ()):
            if is_lacking:
                self.session.execute(on.fill_from_chunks(place, first=first), prepare=False)

    def _fill_moved_chunk(self, on: TableStatements, batch: Encoded, chunk: int) -> None:
        """Give the moved rows of this chunk what they lack: from the chunks before it, then from the live rows."""
        self._note_moved(on, batch)
        for place in batch.lacking:
            self.session.execute(on.fill_moved_from_chunks(place, chunk), prepare=False)
        self.session.execute(on.fill_moved_from_live(on.chunks, chunk=chunk), prepare=False)
        self._require_no_moved_orphans(on, on.moved_orphans(on.chunks, chunk=chunk))

    def _note_moved(self, on: TableStatements, batch: Encoded) -> None:
        self.session.execute(on.create_moved)
        self.session.execute(f"DELETE FROM {on.moved}")
        self._copy(on.copy_moved, batch.moved)

    def _copy(self, statement: str, document: bytes) -> None:
        with self.session.cursor().copy(statement) as copy:
            copy.write(document)

    def _require_all_rows(self, on: TableStatements, put: int) -> None:
        """Chunks do not survive their session: what was put there must be there."""
        row = self.session.execute(f"SELECT count(*) FROM {on.chunks}").fetchone()
        if row is None or row[0] != put:
            raise TransientError(
                f"{row[0] if row else 0} spilled rows are there, {put} were spilled",
                hint="the destination lost them; the span is read again",
                table=on.table.name,
            )

    def _require_no_moved_orphans(self, on: TableStatements, statement: str) -> None:
        found = self.session.execute(statement, prepare=False).fetchone()
        if found is not None and found[0]:
            raise Diverged(
                f"{found[0]} rows of {on.table.name} change their key and leave out values that did not change, and the"
                " destination has no row under the old key",
                hint=_CHANGED,
                table=on.table.name,
            )

    def _require_no_orphans(self, rows: "_Rows") -> None:
        found = self.session.execute(rows.do.orphans, rows.parameter, prepare=False).fetchone()
        if found is not None and found[0]:
            name = rows.on.table.name
            raise Diverged(
                f"{found[0]} updates of {name} leave out values that did not change, of rows that the destination does"
                " not have",
                hint=_CHANGED,
                table=name,
            )

    def _merge(self, rows: "_Rows", said: str, *, with_deletes: bool) -> tuple[list[Finding], int]:
        found: list[Row] = []
        if with_deletes:
            found += self.session.execute(rows.do.missed_deletes, rows.parameter, prepare=True).fetchall()
        total = found[0][3] if found else 0
        if said:
            merged = delete_and_insert(self.session, rows.on, rows.do, rows.parameter, said=said)
        else:
            merged = self.session.execute(rows.do.merge, rows.parameter, prepare=True).fetchall()
        total += merged[0][3] if merged else 0
        name = rows.on.table.name
        return [Finding(name, kind, key, offset) for kind, key, offset, _ in (*found, *merged)], total

    def _change_multiset(self, rows: "_Rows") -> None:
        # Copies come before removals: a row that appears and disappears in one span may be written in two ways.
        # Planned each time: these plans depend on how large the table has become.
        self.session.execute(rows.do.insert_copies, rows.parameter, prepare=False)
        wanted = self.session.execute(rows.do.wanted_removals, rows.parameter, prepare=False).fetchone()
        if wanted is None or not wanted[0]:
            return
        self.session.execute(_REMOVAL_PLAN)
        removed = self.session.execute(rows.do.remove_copies, rows.parameter, prepare=False).rowcount
        if removed != wanted[0]:
            name = rows.on.table.name
            raise Diverged(
                f"{wanted[0]} rows of {name} should go, the destination holds only {removed} of them",
                hint=_CHANGED,
                table=name,
            )


@dataclass(frozen=True, slots=True)
class _Rows:
    """A span's rows of one table, where they stand and what is done with them."""

    on: TableStatements
    do: SpanStatements
    parameter: tuple[BinaryArray, ...] | None


def _has_chunks(batches: Sequence[Encoded]) -> bool:
    return any(batch.chunk for batch in batches)


def _is_sent(batches: Sequence[Encoded]) -> bool:
    """Whether the rows travel with the statements themselves."""
    return len(batches) == 1 and batches[0].is_sent
