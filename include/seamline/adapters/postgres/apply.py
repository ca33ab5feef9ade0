"""One session that applies spans: staging tables and prepared statements, made once per table and used ever after."""

from collections.abc import Callable, Mapping, Sequence

import psycopg

from seamline.adapters.postgres.client import Row, Session, translated
from seamline.adapters.postgres.encode import Encoded
from seamline.adapters.postgres.statements import TableStatements
from seamline.domain.changes import Finding
from seamline.domain.errors import Diverged

# Keyed tables only: each staged row looks its key up in the live table's index, nothing else is ever right. A hash join
# reads the whole live table; materializing a table that was empty when the plan was made makes the work quadratic (the
# plan is kept while the table grows). A keyless table has no such one path for everything it does.
_KEYED_ONLY = ("hashjoin", "mergejoin", "seqscan", "material", "memoize")
_KEYED_PLAN = "; ".join(f"SET LOCAL enable_{name} = off" for name in _KEYED_ONLY)
_ANY_PLAN = "; ".join(f"SET LOCAL enable_{name} = on" for name in _KEYED_ONLY)
# A removal looks rows up by their identity's hash, of which the planner knows nothing until the table was analyzed; a
# LIMIT then makes reading the whole table look cheap to it.
_REMOVAL_PLAN = "SET LOCAL enable_seqscan = off"


class SpanApplier:
    """Bound to one session; dies with it."""

    def __init__(self, session: Session, statements: Mapping[str, TableStatements]) -> None:
        self.session = session
        self._statements = statements
        self._staged: set[str] = set()

    def prepare_tables(self, names: Sequence[str]) -> None:
        """Make the staging tables of these live tables, outside of the span's transaction. A repeat costs nothing."""
        for name in names:
            if name not in self._staged:
                with translated("make a staging table", table=name):
                    self.session.execute(self._statements[name].create_staging)
                self._staged.add(name)

    def apply(
        self, batches: Mapping[str, Sequence[Encoded]], *, pieces: Mapping[str, str], between: Callable[[], None]
    ) -> tuple[list[Finding], int]:
        """Apply the batches inside the open transaction; `pieces` names the tables that hold pieces of a unit.

        `between` is called once, after the first table's rows. Returns the findings that are kept and their total.
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
                    kept, found = self._apply_table(self._statements[name], batches[name], pieces.get(name, ""))
                findings += kept
                total += found
                if name == next(iter([*keyed, *keyless])):
                    between()
        return findings, total

    def _apply_table(self, on: TableStatements, batches: Sequence[Encoded], pieces: str) -> tuple[list[Finding], int]:
        if any(batch.truncate_first for batch in batches):
            # DELETE and not TRUNCATE: a reader sees the rows until the commit, and none of them after it.
            self.session.execute(f"DELETE FROM {on.live}")
        if pieces:
            for batch in batches:
                if not batch.piece:
                    self._copy(on.copy_into(pieces), batch.csv)
            self.session.execute(on.gather_pieces(pieces))
        else:
            for batch in batches:
                self._copy(on.copy_into(on.staging), batch.csv)
        if not any(batch.rows for batch in batches):
            return [], 0
        if on.table.is_keyed:
            return self._merge(on, with_deletes=any(batch.expects_deletes for batch in batches))
        self._change_multiset(on)
        return [], 0

    def _copy(self, statement: str, document: bytes) -> None:
        if document:
            with self.session.cursor().copy(statement) as copy:
                copy.write(document)

    def _merge(self, on: TableStatements, *, with_deletes: bool) -> tuple[list[Finding], int]:
        found: list[Row] = []
        if with_deletes:
            found += self._run(on.missed_deletes).fetchall()
        total = found[0][3] if found else 0
        merged = self._run(on.merge).fetchall()
        total += merged[0][3] if merged else 0
        return [Finding(on.table.name, kind, key, offset) for kind, key, offset, _ in (*found, *merged)], total

    def _change_multiset(self, on: TableStatements) -> None:
        # Copies come before removals: a row that appears and disappears in one span may be written in two ways.
        # Planned each time: these plans depend on how large the table has become.
        self.session.execute(on.insert_copies, prepare=False)
        wanted = self.session.execute(on.wanted_removals, prepare=False).fetchone()
        if wanted is None or not wanted[0]:
            return
        self.session.execute(_REMOVAL_PLAN)
        removed = self.session.execute(on.remove_copies, prepare=False).rowcount
        if removed != wanted[0]:
            raise Diverged(
                f"{wanted[0]} rows of {on.table.name} should go, the destination holds only {removed} of them",
                hint="somebody changed the table in the destination: reconcile it, then onboard it again",
                table=on.table.name,
            )

    def _run(self, statement: str) -> "psycopg.Cursor[Row]":
        return self.session.execute(statement, prepare=True)
