"""Whether the changes in the log were made while the tables had their planned schema: by the source, or by the log.

A source that answers is asked before each commit (ADR 9). While it does not answer, the heartbeats further on in the
log say what its catalogue was at their place (ADR 37): a stream is applied up to the last place that is proven so.
"""

import json
import logging
import math
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from seamline.domain.catalogue_fingerprints import CatalogueFingerprints, fingerprints_in
from seamline.domain.errors import SeamlineError, SourceAway, TransientError
from seamline.domain.log import RecordKind, RowChange, Transaction
from seamline.domain.position import Position
from seamline.ports import LogReader, SchemaGuard
from seamline.sync.clock import Clock
from seamline.sync.stop_conditions import marker_fields

log = logging.getLogger(__name__)

OpenLog = Callable[[], LogReader]

_ASK_EVERY_S = 2.0
# Where the log could not be read ahead.
_READ_AGAIN_S = 10.0
# So long the log may be read ahead before orders are looked at again.
_SCAN_S = 1.0
_POLL_S = 0.25
_RECORDS_MAX = 10_000


class SchemaProof:
    """`require` is called before a commit, by the thread that commits; all else by the thread of the loop.

    Without `open_log` a source that does not answer ends the stream.
    """

    def __init__(self, guard: SchemaGuard | None, open_log: OpenLog | None, *, marker_table: str, clock: Clock) -> None:
        self._guard = guard
        self._open_log = open_log
        self._marker_table = marker_table
        self._clock = clock
        # The last error of the source, while it is away.
        self.trouble = ""
        self._proven_by_log: Position | None = None
        self._ahead: _FingerprintsAhead | None = None
        self._read_at = -math.inf
        self._asking: Future[None] | None = None
        self._ask_at = -math.inf
        self._asker: ThreadPoolExecutor | None = None

    def require(self, through: Position) -> None:
        """Return if everything up to `through` was made under the planned schema. Raises what the guard raises, and
        SourceAway where somebody may wait for the source."""
        if self._guard is None or self._is_proven(through):
            return
        try:
            self._guard.verify(through)
        except TransientError as exc:
            if self._open_log is None:
                raise
            raise SourceAway(exc.message, hint=exc.hint) from exc

    def lose(self, away: SourceAway) -> None:
        """From now on only what is proven is covered, until the source answers again."""
        self.trouble = away.message
        self._ask_at = self._clock.now() + _ASK_EVERY_S
        log.warning("the source does not answer, what the log proves is applied: %s", away.message)

    def covers(self, transaction: Transaction) -> bool:
        """Whether the transaction may be applied now. A source that answers is asked at the commit. For a transaction
        in chunks it is asked before: a failed commit would lose them."""
        if self._guard is None or not (self.trouble or transaction.chunks) or not is_to_be_proven(transaction):
            return True
        if self._is_proven(transaction.position):
            return True
        if self.trouble:
            return self._has_come_back(transaction) or self._is_proven_ahead(transaction)
        try:
            self.require(transaction.position)
        except SourceAway as away:
            self.lose(away)
            return False
        return True

    def close(self) -> None:
        """Waits for the last question to the source."""
        if self._asker is not None:
            self._asker.shutdown(wait=True)
        self._stop_reading_ahead()

    def _is_proven(self, position: Position) -> bool:
        verified = self._guard.verified if self._guard is not None else None
        return any(place is not None and place.reaches(position) for place in (self._proven_by_log, verified))

    # ---- the source ------------------------------------------------------------------------------------------------

    def _has_come_back(self, transaction: Transaction) -> bool:
        """Asks in a thread of its own: a server that does not answer takes its time, and orders do not wait."""
        if self._asking is None and self._guard is not None and self._clock.now() >= self._ask_at:
            self._asker = self._asker or ThreadPoolExecutor(1, thread_name_prefix="ask the source")
            self._asking = self._asker.submit(self._guard.verify, transaction.position)
        if self._asking is None or not self._asking.done():
            return False
        asked, self._asking = self._asking, None
        self._ask_at = self._clock.now() + _ASK_EVERY_S
        try:
            asked.result()
        except TransientError as exc:
            self.trouble = exc.message
            return False
        log.info("the source answers again")
        self.trouble = ""
        self._stop_reading_ahead()
        return self.covers(transaction)

    # ---- the log ---------------------------------------------------------------------------------------------------

    def _is_proven_ahead(self, transaction: Transaction) -> bool:
        """Reads ahead until the transaction is proven, or the log has no more, or for a second."""
        began = self._clock.now()
        if self._open_log is None or began < self._read_at:
            return False
        try:
            if self._ahead is None:
                self._ahead = _FingerprintsAhead(self._open_log(), self._marker_table, begins=transaction.end)
            while (found := self._ahead.read()) is not None:
                self._believe(found)
                if self._is_proven(transaction.position) or self._clock.now() - began >= _SCAN_S:
                    break
        except SeamlineError as exc:
            # The stream itself meets a fault of the log when it comes there.
            log.warning("the log cannot be read ahead: %s", exc)
            self._read_at = began + _READ_AGAIN_S
        return self._is_proven(transaction.position)

    def _believe(self, found: Sequence[CatalogueFingerprints]) -> None:
        for fingerprints in found:
            is_news = self._proven_by_log is None or fingerprints.through.reaches(self._proven_by_log)
            if is_news and self._guard is not None and self._guard.is_as_planned(fingerprints.tables):
                self._proven_by_log = fingerprints.through

    def _stop_reading_ahead(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead = None


class _FingerprintsAhead:
    """The fingerprints of the heartbeats from `begins` on, where a transaction begins."""

    def __init__(self, reader: LogReader, marker_table: str, *, begins: int) -> None:
        self._reader = reader
        self._marker_table = marker_table
        self._open: list[CatalogueFingerprints] = []
        try:
            reader.assign(begins)
        except SeamlineError:
            reader.close()
            raise

    def read(self) -> list[CatalogueFingerprints] | None:
        """Those of the next records; None if there are none yet.

        Fingerprints of a place behind the transaction that carries them come from another server and are dropped.
        """
        records = self._reader.poll(_POLL_S, _RECORDS_MAX)
        found: list[CatalogueFingerprints] = []
        for record in records:
            if record.kind is RecordKind.ROWS:
                rows = (row for row in record.rows if row.table == self._marker_table and row.op == "c")
                self._open += [
                    fingerprints for fingerprints in map(self._fingerprints_of, rows) if fingerprints is not None
                ]
            elif record.kind is RecordKind.BEGIN:
                self._open = []
            elif record.kind is RecordKind.END and record.position is not None:
                found += [fingerprints for fingerprints in self._open if record.position.reaches(fingerprints.through)]
                self._open = []
        return found if records else None

    def close(self) -> None:
        self._reader.close()

    @staticmethod
    def _fingerprints_of(row: RowChange) -> CatalogueFingerprints | None:
        try:
            return fingerprints_in(json.loads(marker_fields(row)["payload"] or "{}"))
        except ValueError:
            return None


def is_to_be_proven(transaction: Transaction) -> bool:
    """Whether it changes anything of the stream's tables."""
    return bool(transaction.rows or transaction.chunks or transaction.truncated)
