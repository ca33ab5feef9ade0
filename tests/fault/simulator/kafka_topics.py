"""One seed, one schedule of a stream into topics: owners that die amid a span, deliveries that fail, answers that are
lost, and readers who look behind each step."""

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from typing import Any, cast

from seamline.domain.changes import TableChanges
from seamline.domain.cutover import Boundary
from seamline.domain.errors import CommitUnknown, SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.domain.log import Span, Transaction
from seamline.kinds.sink import AT_LEAST_ONCE
from seamline.plan.model import DestinationPlan
from seamline.ports import Lease, Progress
from seamline.sinks.kafka.commit import Where, where_of
from seamline.sinks.kafka.control import StreamState, read_control, record_of
from seamline.sinks.kafka.sink import KafkaSink
from seamline.sinks.kafka.spec import KafkaDestination
from seamline.sinks.kafka.transaction import Sending
from tests.fault.simulator.schedule import Violation
from tests.log_topic import AUDIT, STREAM, TOPIC, TOPIC_ID, position, sync_plan
from tests.memory_topics import FAILED, KILLED, UNANSWERED, Cluster, Killed
from tests.opened_sink import decoder_of
from tests.toast_log import NOTE, Change, Row, ToastLog, compacted, note

TABLES = (NOTE, AUDIT)
CONTROL = "t.control"
# So often a span may fail before the schedule counts as one that does not end.
_TRIES = 400
# Spans that bring nothing, behind all others: every mark of a table with a key is over then.
_QUIET = 2
_KEYS = 6


@dataclass(slots=True)
class Held:
    """What both tables hold: rows by key, and copies of each row without a key."""

    notes: dict[int, Row] = field(default_factory=dict)
    audits: Counter[str] = field(default_factory=Counter)

    def copied(self) -> "Held":
        return Held(dict(self.notes), Counter({row: copies for row, copies in self.audits.items() if copies}))


class Source:
    """`behind[n]`: what the tables hold behind so many transactions."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice
        self._log = ToastLog()
        self.transactions: list[tuple[Transaction, Counter[str]]] = []
        self.behind = [Held()]
        for number in range(dice.randint(5, 24)):
            held = self.behind[-1].copied()
            is_truncated = dice.random() < 0.06
            if is_truncated:
                held.notes.clear()
            notes = [one for _ in range(dice.randint(1, 3)) if (one := self._note(held.notes, f"{number}")) is not None]
            audits = Counter[str]()
            for _ in range(dice.randint(0, 2)):
                self._audit(held.audits, audits)
            self.transactions.append((self._log.transaction(*notes, truncated=is_truncated), audits))
            self.behind.append(held.copied())
        self.behind += [self.behind[-1]] * _QUIET

    def _note(self, rows: dict[int, Row], mark: str) -> Change | None:
        """A row that comes, changes, leaves a large value out, changes its key or goes."""
        dice, number = self._dice, self._dice.randrange(_KEYS)
        before = rows.pop(number, None)
        if before is None:
            rows[number] = note(number, mark, dice.choice([f"large {mark}", "small", None]), None)
            return None, rows[number]
        if dice.random() < 0.3:
            return before, None
        after = {**before, "title": f"{mark}.{dice.randrange(9)}"}
        if dice.random() < 0.3:
            after["body"] = f"large, new {mark}"
        if (other := dice.randrange(_KEYS)) not in rows and dice.random() < 0.3:
            after["id"] = other
        rows[after["id"]] = after
        return before, after

    def _audit(self, held: Counter[str], net: Counter[str]) -> None:
        row = f"row {self._dice.randrange(3)}"
        one = -1 if held[row] > 0 and self._dice.random() < 0.5 else 1
        held[row] += one
        net[row] += one

    def changes(self, start: int, end: int) -> list[TableChanges]:
        """Of the transactions from `start` to `end`, exclusive, as one span."""
        some = self.transactions[start:end]
        found = compacted(*(transaction for transaction, _ in some))
        net = Counter[str]()
        for _, audits in some:
            net.update(audits)
        copies = {json.dumps({"actor": "x", "action": row}).encode(): count for row, count in net.items() if count}
        return [*found, TableChanges(AUDIT.name, net=copies, changes_in=len(copies))]


class Reader:
    """A job that follows the control topic, commit by commit, as docs/how-to/read-topics.md says it."""

    def __init__(self, cluster: Cluster, where: Where) -> None:
        self._cluster, self._where = cluster, where
        self._next = 0
        self.known: dict[str, Any] = {}
        self.held = Held()

    def follow(self) -> Iterator[int]:
        """How many transactions of the source each commit stands behind."""
        for record in self._cluster.readable((CONTROL, 0), self._next):
            self._next = record.at + 1
            said = json.loads(record.value() or b"null")
            if said is None:
                continue
            if not self.known or (said["epoch"], said["span"][1]) > (self.known["epoch"], self.known["span"][1]):
                self._take(said)
                yield said["span"][1] // 10

    def _take(self, said: dict[str, Any]) -> None:
        before = self.known.get("ends", {})
        for table, ends in said["ends"].items():
            starts, marks = before.get(table, [0] * len(ends)), said["repeated"].get(table, [])
            for record in _records(self._cluster, self._where.topic(table), starts, ends, marks):
                if table == NOTE.name:
                    number = json.loads(record.key() or b"")["id"]
                    self.held.notes.pop(number, None)
                    if (row := _row(record)) is not None:
                        self.held.notes[number] = row
                else:
                    row = cast(Row, _row(record))
                    self.held.audits[row["action"]] += -1 if _goes(record) else 1
        self.known = said


def _records(
    cluster: Cluster, topic: str, starts: Sequence[int], ends: Sequence[int], marks: Sequence[Sequence[int]]
) -> Iterator[Any]:
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for record in cluster.readable((topic, number), start):
            is_left_out = any(part == number and first <= record.at < last for part, first, last, _ in marks)
            if record.at < end and not is_left_out:
                yield record


def _goes(record: Any) -> bool:
    return record.value() is None or ("op", b"d") in record.headers()


def _row(record: Any) -> Row | None:
    """None: of a table with a key, it goes."""
    said = json.loads(record.value()) if record.value() is not None else None
    if said is not None and "op" in said:
        return cast(Row, said["after"] or (said["before"] if "action" in said["before"] else None))
    return cast("Row | None", said)


class TopicsRun:
    """One stream into one cluster. `_suspended`: what an owner that was suspended amid a commit has still to say."""

    def __init__(self, seed: int, guarantee: str, partitions: int) -> None:
        dice = self._dice = random.Random(seed)
        self.cluster = Cluster(dice, partitions=partitions)
        self.tally = self.cluster.met
        self._trouble = dice.choice([0.1, 0.35, 0.6])
        said = {"destination": "warehouse", "kind": "kafka", "connection": "kafka", "prefix": "t"}
        form = self.form = dice.choice(["json", "debezium"])
        declared = KafkaDestination.model_validate({**said, "format": form, "partitions": partitions})
        options = tuple(declared.options.items())
        destination = DestinationPlan("warehouse", "kafka", "kafka", "t", options=options, no_cuts=True)
        plan = sync_plan(TABLES)
        plan = replace(plan, source=replace(plan.source, kind="postgres"), guarantee=guarantee)
        self._plan = replace(plan, destinations=(destination,))
        self._where = where_of(self._plan, destination)
        self._source = Source(dice)
        self._reader = Reader(self.cluster, self._where)
        self._looked_at = 0
        self._may_repeat = guarantee == AT_LEAST_ONCE
        self._suspended: list[Sending] = []
        self._begin(partitions)

    def _begin(self, partitions: int) -> None:
        """As the first publish of two empty tables leaves it."""
        at = position(0)
        boundaries = tuple(Boundary(table.name, at, ended=True) for table in TABLES)
        row = LedgerRow(STREAM, TOPIC, TOPIC_ID, 0, at, 1, 0, 0, boundaries)
        state = StreamState(row, {table.name: (0,) * partitions for table in TABLES})
        for place in ((self._where.topic(table.name), number) for table in TABLES for number in range(partitions)):
            self.cluster.log(place)
        self.cluster.append((CONTROL, 0), (str(STREAM).encode(), record_of(state, start=0, records={}), []), None)

    @property
    def wanted(self) -> Held:
        """What the tables hold behind all transactions."""
        return self._source.behind[-1]

    def run(self) -> None:
        with self.cluster.in_place():
            last = len(self._source.transactions)
            self._sink, self._lease = self._owner()
            for _ in range(_TRIES):
                at = self._look()
                if at >= last + _QUIET:
                    break
                self._stand_still()
                self._span(at, min(last, at + self._dice.randint(1, 5)) if at < last else at + 1)
            else:
                raise Violation("stuck", f"{self._looked_at} of {last} transactions were committed")
            self._look_at_the_topics_alone()
        self.tally["ends compared"] += 1

    def _span(self, at: int, end: int) -> None:
        """As the span loop: after a lost answer a new epoch, then what the ledger says."""
        is_busy = at < len(self._source.transactions)
        if is_busy and self._may_repeat and self._dice.random() < 0.1:
            self._suspend(at, end)
            return
        if is_busy and self._dice.random() < self._trouble:
            self.cluster.armed = self._dice.randrange(8), self._dice.choice([KILLED, FAILED, UNANSWERED])
        try:
            self._commit(at, end)
        except Killed:
            self._look()
            self._sink, self._lease = self._owner()
        except CommitUnknown:
            self.tally["commit unknown"] += 1
            self._lease = self._sink.acquire(STREAM, after_epoch=self._lease.epoch)
        except TransientError:
            self._look()
            if self._dice.random() < 0.5:
                self._lease = self._sink.acquire(STREAM)
        except SeamlineError as exc:
            raise Violation("stopped", f"{type(exc).__name__} of [{at}, {end}): {exc.message}") from exc
        self.cluster.armed = None

    def _stand_still(self) -> None:
        """An owner that was suspended says late what it had to say, and an idle control topic is compacted. Both change
        nothing that anybody reads."""
        if self._suspended and self._dice.random() < 0.3:
            self._suspended.pop().commit()
            self.tally["late"] += 1
        if self._dice.random() < 0.2:
            self.cluster.compact((CONTROL, 0))
        self._look()

    def _suspend(self, at: int, end: int) -> None:
        """Amid a commit, once its rows have arrived; another owner takes the stream. With transactions it is fenced."""
        self._sink._commit_at_broker = lambda sending, _: self._suspended.append(sending)  # type: ignore[method-assign]
        self._commit(at, end)
        self._sink, self._lease = self._owner()

    def _owner(self) -> tuple[KafkaSink, Lease]:
        """One that may end while it takes the stream, too."""
        while True:
            sink = KafkaSink(
                self._plan,
                self._plan.destinations[0],
                decoder=decoder_of(self._plan),
                resolve=cast(Any, lambda _: None),
            )
            self.cluster.armed = (self._dice.randrange(3), KILLED) if self._dice.random() < 0.1 else None
            try:
                return sink, sink.acquire(STREAM)
            except Killed:
                self._look()
            finally:
                self.cluster.armed = None

    def _commit(self, at: int, end: int) -> None:
        changes = self._source.changes(at, end)
        self.tally["emptied"] += any(one.truncate_first for one in changes)
        staged = [self._sink.stage(self._lease, one) for one in changes if not one.is_empty]
        progress = Progress(Span(at * 10, end * 10, end - at, position(end), 1))
        self._sink.commit(self._lease, staged, progress=progress)
        self.tally["rows held"] += len(self._sink._folds)
        self.tally["committed"] += 1

    # ---- who looks --------------------------------------------------------------------------------------------------

    def _look(self) -> int:
        """By the newest control record every table is what the source held at its position, which never goes back."""
        state = read_control({}, CONTROL).states[STREAM]
        at = state.row.next_offset // 10
        if at < self._looked_at:
            raise Violation("lost", f"{at} transactions are there, {self._looked_at} were")
        self._looked_at = at
        self.tally["marks"] += len(state.repeated)
        self._require(self._folded(state), at, "folded")
        for behind in self._reader.follow():
            self._require(self._reader.held.copied(), behind, "followed")
        return at

    def _folded(self, state: StreamState) -> Held:
        found = Held()
        for table in TABLES:
            marks, form = state.repeated.get(table.name, ()), self._where.form(table.name)
            with closing(self._where.fold(table)) as fold:
                fold.read_on({}, self._where.topic(table.name), state.ends[table.name], form, marks)
                rows = [json.loads(text) for some in fold.rows(table.name) for text in some]
            if table.is_keyed:
                found.notes = {row["id"]: row for row in rows}
            else:
                found.audits = Counter(row["action"] for row in rows)
        return found

    def _require(self, found: Held, at: int, check: str) -> None:
        if found != self._source.behind[at]:
            raise Violation(check, f"behind {at} transactions there are {found}, should be {self._source.behind[at]}")

    def _look_at_the_topics_alone(self) -> None:
        """As readers without the control topic see them once the stream stands: the newest record of each key is its
        row, and in no partition more copies go than have come."""
        newest, copies = dict[int, Row](), Counter[tuple[int, str]]()
        marks = self._reader.known["repeated"].get(AUDIT.name, [])
        whole = [len(self.cluster.log((self._where.topic(AUDIT.name), one))) for one in range(self.cluster.partitions)]
        for one in range(self.cluster.partitions):
            for record in self.cluster.readable((self._where.topic(NOTE.name), one)):
                number, row = json.loads(record.key() or b"")["id"], _row(record)
                newest.pop(number, None)
                if row is not None:
                    newest[number] = row
        if newest != self._source.behind[-1].notes:
            raise Violation("newest", f"{newest}, should be {self._source.behind[-1].notes}")
        for record in _records(self.cluster, self._where.topic(AUDIT.name), [0] * len(whole), whole, marks):
            place = record.partition(), cast(Row, _row(record))["action"]
            copies[place] += -1 if _goes(record) else 1
            if copies[place] < 0:
                raise Violation("order", f"a copy of {place[1]} goes in partition {place[0]} that came in none")


def run_topics(seed: int, guarantee: str, partitions: int) -> Counter[str]:
    """What was met, by name; how often. Violation: what must never be seen was seen."""
    run = TopicsRun(seed, guarantee, partitions)
    run.run()
    return run.tally


GUARANTEES = ("exactly_once", AT_LEAST_ONCE)
