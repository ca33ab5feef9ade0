"""What maintenance reads from a destination, and what it deletes there."""

from collections.abc import Mapping, Sequence

from seamline.adapters.connections import resolve
from seamline.domain.log_floor import LedgerPlace
from seamline.plan.model import INCREMENTAL, DestinationPlan
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS, LetGo
from seamline.sinks.redis.keys import Keyspace
from seamline.sinks.redis.loads import drop_abandoned
from seamline.sinks.redis.options import rows_max_of
from seamline.sinks.redis.removing import forget_tables, forgotten
from seamline.sinks.redis.scripts import FORGET
from seamline.sinks.redis.session import Session, open_session, packed, translated


class RedisMaintenance:
    """`ports.maintenance.DestinationMaintenance`."""

    def __init__(self, destination: DestinationPlan, session: Session) -> None:
        self._name = destination.name
        self._session = session
        self._keys = Keyspace.of(destination)

    def ledgers(self) -> Sequence[LedgerPlace]:
        return tuple(
            LedgerPlace(stream, fields["topic"], fields["topic_id"], int(fields["next_offset"]))
            for stream, fields in self._ledgers().items()
        )

    def let_go(self) -> LetGo:
        """Findings go with the rows in which they were met, when their table is put in place again."""
        dead = self._end_dead_snapshots()
        # A join that died behind its script has left rows that no ledger knows.
        forget_tables(self._session, self._keys, self._is_left_behind)
        return LetGo(findings=0, incremental_snapshots=dead, staged=drop_abandoned(self._session, self._keys))

    def close(self) -> None:
        self._session.close()

    def _end_dead_snapshots(self) -> tuple[str, ...]:
        """Incremental snapshots that have not moved for long: each would hold the log for ever."""
        with translated("ask for the time"):
            oldest = int(self._session.client.time()[0]) - INCREMENTAL_KEPT_DAYS * 86_400
        still = {
            stream: fields["updated_at"]
            for stream, fields in self._ledgers().items()
            if INCREMENTAL in stream and stream.endswith(f"@{self._name}") and int(fields["updated_at"]) < oldest
        }
        return tuple(stream for stream, since in still.items() if self._forget(stream, since))

    def _is_left_behind(self, owner: str) -> bool:
        """Asked once its tables are known: a snapshot that is published meanwhile has both by one script."""
        if INCREMENTAL not in owner:
            return False
        with translated("look for a ledger"):
            return not self._session.client.exists(self._keys.of_stream("ledger", owner))

    def _forget(self, stream: str, since: str) -> bool:
        """False where it has moved again. A worker that comes back finds itself fenced."""
        keys = [self._keys.of_stream("ledger", stream), self._keys.own("streams")]
        with translated("end an incremental snapshot"):
            return bool(self._session.run(FORGET, keys, since, packed(forgotten(self._keys, stream))))

    def _ledgers(self) -> Mapping[str, Mapping[str, str]]:
        found = dict[str, Mapping[str, str]]()
        with translated("read the ledgers"):
            for name in self._session.members(self._keys.own("streams")):
                if fields := self._session.fields(self._keys.of_stream("ledger", name)):
                    found[name] = fields
        return found


def open_maintenance(destination: DestinationPlan) -> RedisMaintenance:
    session = open_session(resolve(destination.connection), rows_max=rows_max_of(destination))
    return RedisMaintenance(destination, session)
