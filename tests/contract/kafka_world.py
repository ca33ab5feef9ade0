"""Topics of the test session's broker as a destination that the behaviour suite runs over."""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from secrets import token_hex
from typing import Any

from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import client_settings
from seamline.domain.catalogue import Table
from seamline.domain.changes import Finding
from seamline.domain.errors import CommitUnknown
from seamline.domain.ledger import LedgerRow
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.sink import AT_LEAST_ONCE
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.ports import Failpoints, Load, Sink
from seamline.sinks.kafka.commit import StreamCommit, where_of
from seamline.sinks.kafka.control import read_control
from seamline.sinks.kafka.kind import KIND
from seamline.sinks.kafka.loads import topics_of
from seamline.sinks.kafka.options import options_of
from seamline.sinks.kafka.read_back import live_of
from seamline.sinks.kafka.sink import KafkaSink
from seamline.sinks.kafka.spec import KafkaDestination
from seamline.sinks.kafka.transaction import Sending, Transactions
from seamline.values.build import rows_of
from seamline.values.changes import ChangeDecoder
from tests.bank_history import text_of
from tests.contract.worlds import Row
from tests.log_topic import STREAM, sync_plan
from tests.memory_sink import LostAnswer, as_logged
from tests.opened_sink import decoder_of

# The behaviours that every run tries over topics; the others by `--every-behaviour`.
_EXACTLY_ONCE = frozenset(
    {
        "who_asks_for_the_epoch_after_its_own_takes_the_stream_from_nobody",
        "rows_and_ledger_are_committed_together",
        "a_replayed_span_changes_nothing",
        "an_older_lease_can_never_commit_again",
        "a_failure_in_the_middle_leaves_nothing_and_can_be_tried_again",
        "a_lost_answer_of_an_applied_commit_is_found_again",
        "a_commit_that_never_arrived_is_found_missing",
        "a_publish_whose_answer_was_lost_is_found_done",
        "a_publish_of_a_staged_table_that_lost_a_row_changes_nothing",
        "a_second_publish_replaces_rows_fences_the_stream_and_begins_a_generation",
        "a_key_change_moves_the_row_also_in_a_chain",
        "a_removal_of_more_rows_than_there_are_stops_and_applies_nothing",
        "chunks_of_a_large_transaction_are_seen_by_nobody_and_committed_once",
        "a_truncate_between_chunks_undoes_those_before_it",
        "a_row_that_the_destination_does_not_hold_any_more_goes_and_is_no_finding",
        "rows_are_put_right_under_an_epoch_of_its_own_where_the_ledger_stands",
        "a_stream_with_crashes_ends_with_the_source_s_tables",
        "a_table_that_is_loaded_again_becomes_what_its_snapshot_says_and_begins_a_generation",
        "a_joining_that_never_arrived_can_be_repeated",
        "rows_that_exchange_their_keys_take_what_they_lack_from_each_other",
        "an_owner_that_is_over_takes_a_row_that_the_new_one_has_moved_for_none_that_is_lost",
        "rows_that_move_from_chunk_to_chunk_take_their_values_along",
        "a_destination_that_was_put_back_to_an_older_epoch_is_not_taken_for_another_owner",
    }
)
# The same without transactions: those about owners that die, and what a dead one leaves to look through.
_AT_LEAST_ONCE = frozenset(
    {
        "rows_and_ledger_are_committed_together",
        "an_older_lease_can_never_commit_again",
        "a_failure_in_the_middle_leaves_nothing_and_can_be_tried_again",
        "a_lost_answer_of_an_applied_commit_is_found_again",
        "a_commit_that_never_arrived_is_found_missing",
        "a_removal_of_more_rows_than_there_are_stops_and_applies_nothing",
        "a_stream_with_crashes_ends_with_the_source_s_tables",
        "a_joining_that_never_arrived_can_be_repeated",
        "rows_that_move_from_chunk_to_chunk_take_their_values_along",
        "a_destination_that_was_put_back_to_an_older_epoch_is_not_taken_for_another_owner",
    }
)
WITHOUT_TRANSACTIONS = "kafka_at_least_once"
OVER_TOPICS = {"kafka": "exactly_once", WITHOUT_TRANSACTIONS: AT_LEAST_ONCE}
"""The suite's destinations of topics, and what their sync says."""
TRIED_OVER_TOPICS = {"kafka": _EXACTLY_ONCE, WITHOUT_TRANSACTIONS: _AT_LEAST_ONCE}
NUMBERS = count(1)
_SESSION = token_hex(3)


class KafkaWorld:
    """Topics of its own. A plan that a test puts in place of the first gets the destination of topics too."""

    def __init__(
        self,
        tables: Sequence[Table],
        *,
        kind: type[KafkaSink] = KafkaSink,
        decoder: ChangeDecoder | None = None,
        guarantee: str = "exactly_once",
        **keys: Any,
    ) -> None:
        said = {"destination": "warehouse", "kind": "kafka", "connection": "kafka", **keys}
        self.declared = KafkaDestination.model_validate({"prefix": f"t{_SESSION}-{next(NUMBERS)}", **said})
        self._kind = kind
        self._decoder = decoder
        self._guarantee = guarantee
        self.settings = client_settings(resolve(self.declared.connection))
        self.plan = sync_plan(tables)

    @property
    def plan(self) -> SyncPlan:
        return self._plan

    @plan.setter
    def plan(self, plan: SyncPlan) -> None:
        base = sync_plan(()).destinations[0].namespace
        self._plan = replace(
            plan,
            guarantee=self._guarantee,
            destinations=tuple(
                replace(
                    one,
                    kind="kafka",
                    connection=self.declared.connection,
                    writer_connection="",
                    namespace=one.namespace.replace(base, self.declared.prefix, 1),
                    staged_in=one.staged_in.replace(base, self.declared.prefix, 1),
                    options=tuple(self.declared.options.items()),
                )
                for one in plan.destinations
            ),
        )

    @property
    def destination(self) -> DestinationPlan:
        return self.plan.destinations[0]

    def sink(self, *, failpoints: Failpoints | None = None) -> KafkaSink:
        decoder = self._decoder or decoder_of(self.plan)
        return self._kind(self.plan, self.destination, decoder=decoder, failpoints=failpoints)

    def sink_losing_its_answer(self, lost: LostAnswer) -> Sink:
        made = self.sink()
        commit, lost_before = made._commit_at_broker, list[LostAnswer]()

        def commit_and_lose(transactions: Sending, failpoint: str) -> None:
            if lost_before:
                commit(transactions, failpoint)
                return
            lost_before.append(lost)
            if lost is LostAnswer.NOT_APPLIED:
                transactions.abort()
            else:
                commit(transactions, failpoint)
            raise CommitUnknown("the answer is lost")

        made._commit_at_broker = commit_and_lose  # type: ignore[method-assign]
        return made

    def load(self, table: Table, rows: Sequence[Row]) -> Load:
        decoder = self._decoder or decoder_of(self.plan)
        batch, _ = decoder.rows(table, [json.dumps(row).encode() for row in rows])
        place = KIND.load_area(self.destination, run_id="a run").create([table])[table.name]
        return Load(table, place.name, KIND.load(self.destination, place, ArrowRows(batch.schema, iter([batch]))))

    def rows(self, table: Table) -> list[str]:
        """As whoever folds the topic up to the ledger's position has them; only for the plain test tables."""
        names = [column.name for column in table.columns]
        return sorted(
            text_of({name: as_logged(value) for name, value in zip(names, row, strict=True)})
            for row in self.typed_rows(table)
        )

    def typed_rows(self, table: Table) -> list[tuple[Any, ...]]:
        state = read_control(self.settings, options_of(self.destination).control_topic).states.get(STREAM)
        if state is None or table.name not in state.ends:
            return []
        view = live_of(self.settings, where_of(self.plan, self.destination), [table], state)
        try:
            return [row for batch in view._tables[table.name][1]() for row in rows_of(table, batch)]
        finally:
            view.close()

    def findings(self) -> list[Finding]:
        return []

    def put_back(self, ledger: LedgerRow) -> None:
        options = options_of(self.destination)
        state = read_control(self.settings, options.control_topic).states[ledger.stream]
        transactions = Transactions(
            self.settings, options.transactional_id(ledger.stream), timeout_s=options.transaction_timeout_s
        )
        transactions.begin()
        where = where_of(self.plan, self.destination)
        commit = StreamCommit(transactions, where, replace(state, row=ledger), start=ledger.next_offset)
        # A cluster that was put back has lost the newer record; here its keys are forgotten.
        commit.close(forgotten=[state])
        transactions.commit()

    def close(self) -> None:
        topics = topics_of(self.destination)
        topics.delete(topics.names(self.declared.prefix + "."))
        topics.delete(topics.names(self.declared.prefix + "_"))


KafkaMaker = Callable[[Sequence[Table]], KafkaWorld]
