"""One session that applies spans: its staging tables, made once per table, and what is done with the rows in them."""

from collections.abc import Callable, Mapping, Sequence

from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged, InvariantViolated, SeamlineError, TransientError
from seamline.sinks.relational.delete_insert import deletable, refused_on_the_way
from seamline.sinks.relational.encode_changes import Encoded
from seamline.sinks.relational.session import Session, execute, load_rows, query, translated
from seamline.sinks.relational.statements import LAST_CHUNK, TableStatements

_CHANGED = "somebody changed the table in the destination: put its rows back as they were"


class SpanApplier:
    """Bound to one session; dies with it."""

    def __init__(self, session: Session, statements: Mapping[str, TableStatements]) -> None:
        self.session = session
        self._statements = statements
        # Which staging tables are there, and which of them hold rows.
        self._made: set[str] = set()
        self._filled: set[str] = set()

    def spill(self, on: TableStatements, batch: Encoded) -> None:
        """Put a chunk of a transaction into the session's table of chunks, and give the rows that have changed their
        key what they lack. To be called before anything of the span is written."""
        execute(self.session, on.create_chunks)
        number = batch.chunk or LAST_CHUNK
        if batch.rows:
            load_rows(self.session, on.load_chunk(number), [batch.document])
        if batch.is_moved:
            filling = [one for column in on.unavailable for one in on.fill_moved_from_chunks(column, number)]
            for statement in (*filling, *on.fill_moved_from_live(number)):
                execute(self.session, statement)
            self._require_no_orphans(on, on.moved_orphans(number))

    def bring(self, batches: Mapping[str, Sequence[Encoded]]) -> None:
        """Stage the rows of these batches, outside of the span's transaction. May be repeated."""
        for name, parts in batches.items():
            on = self._statements[name]
            whole = [part for part in parts if not part.chunk]
            if len(whole) > 1:
                raise InvariantViolated(f"a span has {len(whole)} whole batches of {name}", table=name)
            with translated("stage rows", table=name):
                self._empty(on)
                if len(whole) < len(parts):
                    self._gather(on, parts)
                elif whole[0].rows:
                    self._filled.add(name)
                    load_rows(self.session, on.load_staging, [whole[0].document])

    def apply(
        self,
        batches: Mapping[str, Sequence[Encoded]],
        *,
        between: Callable[[], None],
        delete_insert: Mapping[str, str],
    ) -> tuple[list[Finding], int]:
        """Apply what `bring` has staged, inside the open transaction.

        `between` is called once, after the first table's rows. `delete_insert`: tables that are written in the other
        order, and what was said of the first one. Returns the findings that are kept and their total.
        """
        findings: list[Finding] = []
        total = 0
        for step, (name, parts) in enumerate(batches.items()):
            with translated("apply a span", table=name):
                kept, found = self._apply_table(self._statements[name], parts, delete_insert.get(name, ""))
            findings += kept
            total += found
            if step == 0:
                between()
        return findings, total

    def refused_on_the_way(self, exc: SeamlineError) -> str:
        """The error of a unique index against the order in which a keyed table was written; "" for any other error."""
        return refused_on_the_way(self.session, exc, self._statements.get(exc.table))

    def forget(self, batches: Mapping[str, Sequence[Encoded]]) -> None:
        """Drop the chunks of a span that is applied."""
        for name, parts in batches.items():
            if any(part.chunk for part in parts):
                execute(self.session, f"DROP TEMPORARY TABLE IF EXISTS {self._statements[name].chunks}")

    # ---- staging ----------------------------------------------------------------------------------------------------

    def _empty(self, on: TableStatements) -> None:
        name = on.table.name
        if name not in self._made:
            execute(self.session, on.create_staging)
            self._made.add(name)
        elif name in self._filled:
            # Not DELETE, which costs as much as writing the rows did. It would end a transaction: none is open here.
            execute(self.session, f"TRUNCATE TABLE {on.staging}")
        self._filled.discard(name)

    def _gather(self, on: TableStatements, parts: Sequence[Encoded]) -> None:
        """The chunks and the rest of a large transaction, joined."""
        for part in parts:
            if not part.chunk and part.rows:
                execute(self.session, on.create_chunks)
                execute(self.session, f"DELETE FROM {on.chunks} WHERE `seamline.chunk` = {LAST_CHUNK}")
                self.spill(on, part)
        self._require_all_rows(on, sum(part.rows for part in parts))
        # What was spilled before a TRUNCATE is undone by it.
        first = max((part.chunk or LAST_CHUNK for part in parts if part.truncate_first), default=0)
        self._filled.add(on.table.name)
        execute(self.session, on.gather_chunks(first))
        if any(part.is_partial for part in parts):
            for column in on.unavailable:
                if query(self.session, on.lacks_values(column)):
                    for statement in on.fill_from_chunks(column, first):
                        execute(self.session, statement)

    def _require_all_rows(self, on: TableStatements, put: int) -> None:
        """Chunks do not survive their session: what was put there must be there."""
        execute(self.session, on.create_chunks)
        ((found,),) = query(self.session, f"SELECT COUNT(*) FROM {on.chunks}")
        if found != put:
            raise TransientError(
                f"{found} spilled rows are there, {put} were spilled",
                hint="the destination lost them; the span is read again",
                table=on.table.name,
            )

    # ---- the live table ---------------------------------------------------------------------------------------------

    def _apply_table(self, on: TableStatements, parts: Sequence[Encoded], said: str) -> tuple[list[Finding], int]:
        if any(part.truncate_first for part in parts):
            # DELETE and not TRUNCATE: a reader sees the rows until the commit, and none of them after it.
            execute(self.session, f"DELETE FROM {on.live}")
        if not any(part.rows for part in parts):
            return [], 0
        if not on.table.is_keyed:
            self._change_multiset(on)
            return [], 0
        if any(part.is_partial for part in parts):
            for statement in on.fill_from_live:
                execute(self.session, statement)
            self._require_no_orphans(on, on.orphans)
        found = execute(self.session, on.find)
        kept = query(self.session, on.findings)
        if said:
            self._delete_and_insert(on, said)
        else:
            self._merge(on, found, has_deletes=any(part.has_deletes for part in parts))
        name = on.table.name
        return [Finding(name, kind, key, offset) for kind, key, offset, _ in kept], kept[0][3] if kept else 0

    def _merge(self, on: TableStatements, found: int, *, has_deletes: bool) -> None:
        if found and has_deletes:
            execute(self.session, on.delete_deleted)
        if found and on.update_found:
            execute(self.session, on.update_found)
        execute(self.session, on.insert_new)

    def _delete_and_insert(self, on: TableStatements, said: str) -> None:
        with deletable(self.session, on.table, on.database, said=said):
            execute(self.session, on.delete_touched)
        execute(self.session, on.insert_all)

    def _change_multiset(self, on: TableStatements) -> None:
        execute(self.session, on.find_top)
        ((most, wanted),) = query(self.session, on.most_copies)
        if most:
            execute(self.session, on.insert_copies(most))
        if not wanted:
            return
        removed = execute(self.session, on.remove_copies)
        if removed != wanted:
            raise Diverged(
                f"{wanted} rows of {on.table.name} should go, the destination holds only {removed} of them",
                hint=_CHANGED,
                table=on.table.name,
            )

    def _require_no_orphans(self, on: TableStatements, statement: str) -> None:
        ((count,),) = query(self.session, statement)
        if count:
            raise Diverged(
                f"{count} changes of {on.table.name} leave out values that did not change, of rows that the destination"
                " does not have",
                hint=_CHANGED,
                table=on.table.name,
            )
