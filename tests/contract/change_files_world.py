"""Files of changes as a destination that the behaviour suite runs over, in a folder or wherever the place is."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow
from seamline.kinds.bulk import ArrowRows
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Failpoints, Load, Sink
from seamline.sinks.files.change_kind import KIND
from seamline.sinks.files.changes.log import ChangesLog, Seen, open_changes_store
from seamline.sinks.files.changes.maintenance import ChangesMaintenance, open_maintenance
from seamline.sinks.files.changes.read_back import live_of
from seamline.sinks.files.changes.sink import ChangeFilesSink
from seamline.sinks.files.changes.state import ChangesState, StreamState
from seamline.sinks.files.spec import ChangeFilesDestination
from seamline.values.build import rows_of
from seamline.values.changes import ChangeDecoder
from tests.bank_history import text_of
from tests.contract.worlds import Row
from tests.log_topic import STREAM, sync_plan
from tests.memory_sink import LostAnswer, as_logged
from tests.opened_sink import decoder_of

# Hundreds of commits, each of which is brought to the disk.
LONG_OVER_FILES = frozenset(
    {
        "any_history_that_leaves_values_out_ends_with_the_source_s_rows",
        "any_large_transaction_that_leaves_values_out_ends_with_the_source_s_rows",
    }
)


class ChangeFilesWorld:
    """A plan that a test puts in place of the first gets the destination of files too."""

    def __init__(
        self,
        tables: Sequence[Table],
        place: Path | str,
        *,
        staging: Path | None = None,
        connection: str = "",
        decoder: ChangeDecoder | None = None,
        guarantee: str = "exactly_once",
        **keys: Any,
    ) -> None:
        said = {"destination": "warehouse", "kind": "change_files", "location": str(place), "format": "parquet", **keys}
        if staging is not None:
            said["staging"] = str(staging)
        if connection:
            said["connection"] = connection
        self.declared = ChangeFilesDestination.model_validate(said)
        self._decoder = decoder
        self._guarantee = guarantee
        self.plan = sync_plan(tables)

    @property
    def plan(self) -> SyncPlan:
        return self._plan

    @plan.setter
    def plan(self, plan: SyncPlan) -> None:
        base = sync_plan(()).destinations[0].namespace
        destinations = tuple(
            replace(
                one,
                kind="change_files",
                connection=self.declared.connection,
                writer_connection="",
                namespace=one.namespace.replace(base, self.declared.location, 1),
                options=tuple(self.declared.options.items()),
                no_cuts=True,
            )
            for one in plan.destinations
        )
        self._plan = replace(plan, destinations=destinations, guarantee=self._guarantee)

    @property
    def destination(self) -> DestinationPlan:
        return self.plan.destinations[0]

    def sink(self, *, failpoints: Failpoints | None = None) -> ChangeFilesSink:
        decoder = self._decoder or decoder_of(self.plan)
        return ChangeFilesSink(self.plan, self.destination, decoder=decoder, failpoints=failpoints)

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        made = self.sink()
        decide, lost_before = made._decide, list[LostAnswer]()  # noqa: SLF001 (only there does not knowing begin)

        def decide_and_lose(seen: Seen, after: StreamState, without: Any) -> Seen | None:
            if lost_before:
                return decide(seen, after, without)
            lost_before.append(lost)
            if lost is not LostAnswer.NOT_APPLIED:
                decide(seen, after, without)
            raise CommitUnknown("the answer is lost")

        made._decide = decide_and_lose  # type: ignore[method-assign]  # noqa: SLF001
        return made

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        decoder = self._decoder or decoder_of(self.plan)
        batch, _ = decoder.rows(table, [json.dumps(row).encode() for row in rows])
        place = KIND.load_area(self.destination, run_id="a run").create([table])[table.name]
        return Load(table, place.name, KIND.load(self.destination, place, ArrowRows(batch.schema, iter([batch]))))

    def rows(self, table: Table) -> list[str]:
        """As whoever folds the files of the newest manifest has them; only for the plain test tables."""
        names = [column.name for column in table.columns]
        return sorted(
            text_of({name: as_logged(value) for name, value in zip(names, row, strict=True)})
            for row in self.typed_rows(table)
        )

    def typed_rows(self, table: Table) -> list[tuple[Any, ...]]:
        state = self.state().streams.get(STREAM)
        if state is None or table.name not in state.tables:
            return []
        with closing(live_of(self.destination, [table], state)) as view:
            return [row for batch in view._tables[table.name][1]() for row in rows_of(table, batch)]  # noqa: SLF001

    def findings(self) -> list[Finding]:
        return []

    def put_back(self, ledger: LedgerRow) -> None:
        with closing(open_changes_store(self.destination)) as store:
            log = ChangesLog(store, "settlement")
            seen = log.look()
            state = replace(seen.state.streams[ledger.stream], row=ledger)
            assert log.decide(seen, seen.state.with_stream(state)) is not None

    def close(self) -> None:
        return

    # ---- beside the contract ----------------------------------------------------------------------------------------

    def state(self) -> ChangesState:
        with closing(open_changes_store(self.destination)) as store:
            return ChangesLog(store, "settlement").look().state

    def maintenance(self) -> ChangesMaintenance:
        return open_maintenance(self.destination)

    def files(self, table: Table) -> list[str]:
        return [file.path for file in self.state().streams[STREAM].tables[table.name].files]
