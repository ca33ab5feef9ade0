"""Baselines of a sync's tables in one destination: what they held when they last matched."""

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from psycopg.rows import dict_row

from seamline.domain.baseline import Baseline, packed, unpacked
from seamline.domain.errors import InvariantViolated
from seamline.domain.ledger import LedgerRow, StreamId
from seamline.platform import rows
from seamline.platform.database import Database, Session


@dataclass(frozen=True, slots=True)
class Kept:
    """`run_key`: under which a sync's digests are made. `broken`: tables that were a BREAK since they matched."""

    run_key: str
    baselines: Mapping[str, Baseline]
    broken: frozenset[str]


class PlatformBaselines:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def read(self, stream: StreamId) -> Kept:
        """All of the destination. The first call makes the key."""

        def work(session: Session) -> Kept:
            session.execute(
                "insert into digest_key values (%s, %s) on conflict (sync) do nothing",
                (stream.sync, secrets.token_hex(16)),
            )
            key = session.execute("select run_key from digest_key where sync = %s", (stream.sync,)).fetchone()
            if key is None:
                raise InvariantViolated("the key of a sync's digests is not there", sync=stream.sync)
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                "select * from baseline where (sync, destination) = (%s, %s)", (stream.sync, stream.destination)
            )
            found = cursor.fetchall()
            baselines = {
                row["table_name"]: unpacked(
                    row["table_name"],
                    row["made_of"],
                    LedgerRow(
                        stream,
                        row["topic"],
                        row["topic_id"],
                        row["next_offset"],
                        rows.known_position(row["position"]),
                        row["epoch"],
                        0,
                        row["committed_ms"],
                    ),
                    bytes(row["content"]),
                )
                for row in found
            }
            return Kept(key[0], baselines, frozenset(row["table_name"] for row in found if row["is_broken"]))

        return self._database.transact(work)

    def keep(self, stream: StreamId, new: Sequence[Baseline], broken: Sequence[str]) -> None:
        """Replace those of tables that have matched, and note which others were a BREAK. Repeat-safe."""

        def work(session: Session) -> None:
            session.execute(
                "update baseline set is_broken = true where (sync, destination) = (%s, %s) and table_name = any(%s)",
                (stream.sync, stream.destination, list(broken)),
            )
            session.cursor().executemany(
                "insert into baseline values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
                " on conflict (sync, destination, table_name) do update set made_of = excluded.made_of,"
                " topic = excluded.topic, topic_id = excluded.topic_id, next_offset = excluded.next_offset,"
                " position = excluded.position, epoch = excluded.epoch, committed_ms = excluded.committed_ms,"
                " content = excluded.content, is_broken = false",
                [
                    (
                        stream.sync,
                        stream.destination,
                        one.table,
                        one.made_of,
                        one.ledger.topic,
                        one.ledger.topic_id,
                        one.ledger.next_offset,
                        rows.position_column(one.ledger.position),
                        one.ledger.epoch,
                        one.ledger.committed_ms,
                        packed(one),
                    )
                    for one in new
                ],
            )

        self._database.transact(work)
