"""Topics as a destination: what their readers see, what stands in them, what a comparison says, and bugs that the
behaviours must catch."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from seamline.adapters.kafka.committed import committed, written_ends
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import KeyedChange, TableChanges
from seamline.domain.digest import Segment
from seamline.domain.errors import (
    ConfigError,
    LogCorrupted,
    Refused,
    SchemaConflict,
    TransientError,
)
from seamline.kinds.row_json import batch_of_texts, documents, text_of
from seamline.sinks.kafka import formats
from seamline.sinks.kafka.commit import StreamCommit
from seamline.sinks.kafka.control import StreamState, read_control, record_of
from seamline.sinks.kafka.kind import KIND
from seamline.sinks.kafka.options import topic_of
from seamline.sinks.kafka.table_writer import TableWriter
from seamline.sinks.kafka.transaction import BY_KEY, Deliveries
from seamline.values.build import batch_of
from seamline.values.digest import bucket_digests, canonical_texts
from tests.contract.behaviours import (
    Applying,
    Behaviour,
    a_commit_that_never_arrived_is_found_missing,
    a_stream_with_crashes_ends_with_the_source_s_tables,
    account,
    inserts_updates_and_deletes_reach_their_rows,
    published,
    texts,
)
from tests.contract.every_kind import VALUES as ALL_KINDS
from tests.contract.kafka_world import KafkaWorld
from tests.contract.test_stored_values import KEYED, KEYLESS, ROWS, apply, differences, image, row
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, TRANSFER, delete, insert, publication, sync_plan, update


@pytest.fixture
def make(stack: object) -> Iterator[Callable[..., KafkaWorld]]:
    worlds: list[KafkaWorld] = []

    def made(*tables: Table, **keys: Any) -> KafkaWorld:
        worlds.append(KafkaWorld(tables or TABLES, **keys))
        return worlds[-1]

    yield made
    for world in worlds:
        world.close()


def records(world: KafkaWorld, topic: str) -> list[Any]:
    """As a reader with read_committed gets them, by partition."""
    ends = written_ends(world.settings, topic, world.declared.partitions if topic.count(".") else 1)
    assert ends is not None
    return [one for some in committed(world.settings, topic, ends) for one in some]


def said(message: Any) -> tuple[str, Any, Any]:
    """op, key, value of a record."""
    key, value = message.key(), message.value()
    op = dict(message.headers())["op"].decode()
    return op, key and json.loads(key), value and json.loads(value)


# ---- what readers see -----------------------------------------------------------------------------------------------


def test_a_record_says_which_row_it_is_what_happens_to_it_and_where_in_the_source_s_log(make: Any) -> None:
    world = make()
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="y"))
    stream.span(
        update(ACCOUNT, account(1), account(1, "b")),
        delete(ACCOUNT, **account(1, "b")),
        insert(ACCOUNT, **account(2)),
        delete(AUDIT, actor="x", action="y"),
    )
    of_accounts = records(world, f"{world.declared.prefix}.account")
    assert [said(one) for one in of_accounts] == [
        ("c", {"id": 1}, {"id": 1, "name": "a"}),
        ("d", {"id": 1}, None),
        ("c", {"id": 2}, {"id": 2, "name": "a"}),
    ]
    of_audits = records(world, f"{world.declared.prefix}.audit")
    call = {"actor": "x", "action": "y"}
    assert [said(one) for one in of_audits] == [("c", None, call), ("d", None, call)]
    headers = dict(of_accounts[-1].headers())
    assert json.loads(headers["position"])["kind"] == "binlog"
    assert headers.keys() == {"op", "span", "position", "schema"}
    last = json.loads(records(world, f"{world.declared.prefix}.control")[-1].value())
    assert last["records"] == {"account": 2, "audit": 1}
    assert headers["span"].decode() == "{}/{}-{}".format(last["epoch"], *last["span"])


def test_the_envelope_is_that_of_debezium_with_a_tombstone_behind_a_delete(make: Any) -> None:
    world = make(format="debezium")
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action=None))
    stream.span(delete(ACCOUNT, **account(1)), delete(AUDIT, actor="x", action=None), insert(ACCOUNT, **account(2)))
    came, went, tombstone, other = (said(one)[2] for one in records(world, f"{world.declared.prefix}.account"))
    assert (came["op"], came["before"], came["after"]) == ("c", None, {"id": 1, "name": "a"})
    assert came["source"] == {
        "connector": "seamline",
        "name": "core_bank",
        "sync": "settlement",
        "table": "account",
    }
    assert (went["op"], went["before"], went["after"], tombstone) == ("d", {"id": 1}, None, None)
    assert other["after"]["id"] == 2
    assert world.rows(ACCOUNT) == texts(account(2))
    assert world.rows(AUDIT) == []


def test_rows_of_a_key_and_equal_rows_without_one_stay_in_one_partition_in_their_order(make: Any) -> None:
    world = make(partitions=3)
    stream = published(world)
    names = ("a", "b", "c")
    for name in names:
        calls = [insert(AUDIT, actor="x", action=str(number)) for number in range(30)]
        stream.span(*[insert(ACCOUNT, **account(number, name)) for number in range(30)], *calls)
    copies: dict[str, set[int]] = {}
    for one in records(world, f"{world.declared.prefix}.audit"):
        copies.setdefault(said(one)[2]["action"], set()).add(one.partition())
    assert {len(partitions) for partitions in copies.values()} == {1}
    assert set.union(*copies.values()) == {0, 1, 2}
    found: dict[int, list[tuple[int, str]]] = {}
    for one in records(world, f"{world.declared.prefix}.account"):
        _, key, value = said(one)
        found.setdefault(key["id"], []).append((one.partition(), value["name"]))
    assert {tuple(name for _, name in rows) for rows in found.values()} == {names}
    assert {len({partition for partition, _ in rows}) for rows in found.values()} == {1}
    assert {rows[0][0] for rows in found.values()} == {0, 1, 2}
    assert world.rows(ACCOUNT) == texts(*(account(number, "c") for number in range(30)))


def test_tables_that_are_loaded_again_send_only_what_differs(make: Any) -> None:
    world = make()
    calls = [{"actor": "x", "action": str(number)} for number in (1, 1, 2)]
    loads = {"account": [account(number) for number in range(5)], "audit": calls}
    world.sink().publish(
        STREAM, [world.load(table, loads.get(table.name, [])) for table in TABLES], publication=publication()
    )
    loads = {"account": [account(1), account(2, "new"), account(9)], "audit": [calls[0], calls[2], calls[2]]}
    before = len(records(world, f"{world.declared.prefix}.account"))
    again = [world.load(table, loads.get(table.name, [])) for table in TABLES]
    world.sink().publish(STREAM, again, publication=publication(run_id="run-2"))
    sent = [said(one)[:2] for one in records(world, f"{world.declared.prefix}.account")][before:]
    assert sorted((op, key["id"]) for op, key in sent) == [("d", 0), ("d", 3), ("d", 4), ("r", 2), ("r", 9)]
    assert [said(one)[0] for one in records(world, f"{world.declared.prefix}.audit")][3:] == ["r", "d"]
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == (texts(*loads["account"]), texts(*loads["audit"]))


def test_the_page_for_readers_gets_whole_transactions(make: Any, checkout: Path) -> None:
    world = make(partitions=2)
    stream = published(world)
    page = (checkout / "docs/how-to/read-topics.md").read_text(encoding="utf-8")
    code, use = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace('"bank", "feeding@feed"', f'"{world.declared.prefix}", "{STREAM}"')
    names: dict[str, Any] = {}
    exec(code.replace("kafka.example:9092", world.settings["bootstrap.servers"]), names)  # noqa: S102
    stream.span(*[insert(ACCOUNT, **account(number)) for number in range(9)], insert(AUDIT, actor="x", action="y"))
    stream.span(delete(ACCOUNT, **account(1)), insert(AUDIT, actor="x", action="z"))
    exec(use, names)  # noqa: S102
    found = list(names["transactions"](None))
    assert [said["records"] for said, _ in found] == [{}, {}, {"account": 9, "audit": 1}, {"account": 1, "audit": 1}]
    for said, rows in found:
        assert {table: len(records) for table, records in rows.items() if records} == said["records"]
    assert list(names["transactions"](found[-1][0])) == []
    ((said, rows),) = names["transactions"](found[-2][0])
    assert (said["span"], [record.value() for record in rows["account"]]) == ([10, 20], [None])
    # Under a writer it ends at what was there when it began.
    reading = names["transactions"](None)
    under_writers = [next(reading)]
    for said, _ in reading:
        under_writers.append((said, {}))
        stream.span(insert(AUDIT, actor="x", action=f"{len(under_writers)}"))
    assert [said["span"] for said, _ in under_writers] == [said["span"] for said, _ in found]
    # A table that has left, and comes again, goes on where it was read to, whoever was started anew between the two.
    for run, tables in (("out", (ACCOUNT,)), ("in", (ACCOUNT, AUDIT))):
        loads = [world.load(table, []) for table in tables]
        world.sink().publish(STREAM, loads, publication=publication(tables, run_id=run))
        *_, (said, rows) = names["transactions"](said)
    assert len(rows["audit"]) == said["records"]["audit"]


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["json", "debezium"])
def test_every_kind_stands_in_a_topic_exactly(make: Any, form: str) -> None:
    world = make(KEYED, KEYLESS, format=form, partitions=2)
    loads = [world.load(table, []) for table in (KEYED, KEYLESS)]
    world.sink().publish(STREAM, loads, publication=publication((KEYED, KEYLESS)))
    rows = [row(number) for number in range(ROWS + 1)]
    apply(
        world,
        TableChanges("kinds", [KeyedChange(b"{}", False, False, image(one), 1) for one in rows]),
        TableChanges("kinds_keyless", net={image(one): 2 for one in rows}),
    )
    assert differences(sorted(world.typed_rows(KEYED)), rows) == {}
    assert differences(sorted(world.typed_rows(KEYLESS)), [one for one in rows for _ in range(2)]) == {}


@pytest.mark.parametrize("column", ALL_KINDS, ids=lambda column: column.name)
def test_every_edge_value_comes_back_or_is_refused_by_name(column: Column) -> None:
    table = Table("kinds", (column,))
    for value in (*ALL_KINDS[column], None):
        if value is None and not column.nullable:
            continue
        rows = batch_of(table, [(value,)])
        try:
            (found,) = documents(table, table.columns, rows)
        except SchemaConflict as refused:
            assert "beyond the years 1 to 9999" in refused.message
            assert column.kind in (Kind.DATE, Kind.DATETIME, Kind.INSTANT)
            continue
        back = batch_of_texts(table, [text_of(found)])
        assert canonical_texts(column, back.column(0)).equals(canonical_texts(column, rows.column(0)))


# ---- the comparison -------------------------------------------------------------------------------------------------


def test_a_view_stays_at_its_position_while_the_stream_goes_on(make: Any) -> None:
    world = make(partitions=2)
    stream = published(world)
    ledger = stream.span(*[insert(ACCOUNT, **account(number)) for number in range(50)]).ledger
    (view,) = KIND.open_live(world.plan, world.destination, 1)
    with closing(view):
        stream.span(*[delete(ACCOUNT, **account(number)) for number in range(50)])
        digests = view.digests(Segment("account", buckets=4), run_key="k")
        assert view.position == ledger.position
    rows = batch_of(ACCOUNT, [(number, "a") for number in range(50)])
    assert digests == bucket_digests(ACCOUNT, rows, buckets=4, run_key="k")


def test_what_somebody_else_writes_into_a_topic_is_seen_by_the_comparison(make: Any) -> None:
    world = make()
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    foreign(world, f"{world.declared.prefix}.account", b'{"id":1}', b'{"id":1,"name":"forged"}')
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(1, "forged"), account(2))
    foreign(world, f"{world.declared.prefix}.account", b'{"id":1}', b"no row")
    stream.span(insert(ACCOUNT, **account(3)))
    with pytest.raises(LogCorrupted, match="not as Seamline writes it"):
        world.rows(ACCOUNT)


def foreign(world: KafkaWorld, topic: str, key: bytes, value: bytes) -> None:
    producer = Producer(world.settings)
    producer.produce(topic, value, key)
    assert not producer.flush(10)


# ---- what is refused ------------------------------------------------------------------------------------------------


def test_every_name_of_a_table_has_a_topic_of_its_own() -> None:
    names = ["account", "a_b", "a.b", "a-b", "a%b", "a-2db", "客户", "客-户", "A"]
    topics = [topic_of("bank", name) for name in names]
    assert len(set(topics)) == len(names)
    assert topics[:2] == ["bank.account", "bank.a_b"]
    assert all(re.fullmatch(r"bank\.[A-Za-z0-9_-]+", topic) for topic in topics)


def test_preflight_names_what_keeps_a_cluster_from_taking_the_tables(make: Any) -> None:
    world = make()
    published(world)
    found = KIND.problems(world.plan, world.destination)
    assert {problem.is_fatal for problem in found} == {False}
    assert "min.insync.replicas is 1" in found[0].what
    other = make(prefix=world.declared.prefix, partitions=3, transaction_timeout_s=86_400)
    found = [problem.what for problem in KIND.problems(other.plan, other.destination) if problem.is_fatal]
    assert any("account (rows by key): it has 1 partitions, 3 are wanted" in what for what in found)
    assert "Kafka takes no transactions of 86400 s" in found[-1]
    copied = make(ACCOUNT, replication_factor=3)
    found = [problem.what for problem in KIND.problems(copied.plan, copied.destination)]
    assert "Replication factor: 3 larger than available brokers: 1" in found[0] or "replication" in found[0].lower()
    odd = make(*(Table(name, ACCOUNT.columns, ("id",)) for name in ("客户" * 9, "control")))
    found = [problem.what for problem in KIND.problems(odd.plan, odd.destination)]
    assert ["is too long for a topic" in found[0], "the control topic" in found[1]] == [True] * 2


def test_a_topic_that_another_sync_writes_is_left_alone(make: Any) -> None:
    world = make(ACCOUNT)
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    load = world.load(ACCOUNT, [])
    with pytest.raises(Refused, match="table account is there already, and settlement@warehouse writes it"):
        world.sink().publish(replace(STREAM, sync="loans"), [load], publication=publication((ACCOUNT,), run_id="run-9"))
    found = KIND.problems(replace(world.plan, sync="loans"), world.destination)
    assert [problem.what for problem in found if problem.is_fatal] == [
        "destination warehouse: the topic of table account is there already, and settlement@warehouse writes it"
    ]
    assert world.rows(ACCOUNT) == texts(account(1))


def test_a_topic_that_would_lose_rows_is_not_published_into(make: Any) -> None:
    world = make()
    other = make(prefix=world.declared.prefix, partitions=2)
    published(world)
    with pytest.raises(ConfigError, match="it has 1 partitions, 2 are wanted"):
        other.sink().publish(
            STREAM, [other.load(table, []) for table in TABLES], publication=publication(run_id="run-2")
        )


# ---- at least once --------------------------------------------------------------------------------------------------


def end_before_the_control_record(world: KafkaWorld, *changes: Any) -> Applying:
    """An owner whose rows have all arrived; it comes no further."""
    dead = Applying(world)
    dead.sink._commit_at_broker = _ends  # type: ignore[attr-defined]
    with pytest.raises(TransientError, match="ends here"):
        dead.span(*changes)
    return dead


def _ends(*_: Any) -> None:
    raise TransientError("ends here")


def commit_half(stream: Applying, *changes: Any) -> None:
    """A span of half of the offsets that one of `stream` has."""
    progress = stream.progress()
    half = replace(progress, span=replace(progress.span, end=stream.next_offset + 5))
    staged = [stream.sink.stage(stream.lease, one) for one in stream.batches(*changes)]
    stream.next_offset = stream.sink.commit(stream.lease, staged, progress=half).ledger.next_offset


def marks(world: KafkaWorld) -> dict[str, list[list[int | None]]]:
    last = json.loads(records(world, f"{world.declared.prefix}.control")[-1].value())
    found: dict[str, list[list[int | None]]] = last["repeated"]
    return found


def test_at_least_once_delivers_a_dead_owner_s_rows_again_and_names_those_that_do_not_count(make: Any) -> None:
    world = make(guarantee="at_least_once")
    call = {"actor": "x", "action": "y"}
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(AUDIT, **call))
    came = [insert(ACCOUNT, **account(2)), insert(AUDIT, **call)]
    end_before_the_control_record(world, *came, update(ACCOUNT, account(1), account(1, "b")))
    topics = [f"{world.declared.prefix}.{table}" for table in ("account", "audit")]
    assert [len(records(world, topic)) for topic in topics] == [3, 2]
    stream = Applying(world)
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == (texts(account(1)), texts(call))
    commit_half(stream, *came)
    # The dead owner was further: what it said of the second half is not there yet.
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == (texts(account(1), account(2)), texts(call, call))
    assert marks(world) == {"account": [[0, 1, 3, 20]], "audit": [[0, 1, 2, None]]}
    commit_half(stream, update(ACCOUNT, account(1), account(1, "b")))
    assert world.rows(ACCOUNT) == texts(account(1, "b"), account(2))
    stream.span(insert(ACCOUNT, **account(3)))
    assert marks(world) == {"audit": [[0, 1, 2, None]]}
    assert [len(records(world, topic)) for topic in topics] == [6, 3]
    spans = [dict(one.headers())["span"].decode().partition("/")[2] for one in records(world, topics[1])]
    assert spans == ["0-10", "10-20", "10-15"]
    assert (world.rows(ACCOUNT), world.rows(AUDIT)) == (
        texts(account(1, "b"), account(2), account(3)),
        texts(call, call),
    )


def test_a_single_row_behind_those_that_were_read_is_no_marker_without_transactions(make: Any) -> None:
    world = make(guarantee="at_least_once")
    one, other = {"actor": "x", "action": "y"}, {"actor": "x", "action": "z"}
    stream = published(world)
    stream.span(insert(AUDIT, **one), insert(AUDIT, **one))
    stream.span(delete(AUDIT, **one))
    stream.span(insert(AUDIT, **other))
    stream.span(delete(AUDIT, **other))
    assert world.rows(AUDIT) == texts(one)


def test_a_truncate_takes_a_dead_owner_s_rows_along(make: Any) -> None:
    world = make(guarantee="at_least_once")
    published(world)
    end_before_the_control_record(world, insert(ACCOUNT, **account(1)))
    stream = Applying(world)
    (batch,) = stream.batches(insert(ACCOUNT, **account(2)))
    staged = stream.sink.stage(stream.lease, replace(batch, truncate_first=True))
    stream.sink.commit(stream.lease, [staged], progress=stream.progress())
    sent = [said(one)[:2] for one in records(world, f"{world.declared.prefix}.account")]
    assert sent == [("c", {"id": 1}), ("d", {"id": 1}), ("c", {"id": 2})]
    assert world.rows(ACCOUNT) == texts(account(2))


def test_what_an_owner_that_is_over_says_late_does_not_count(make: Any) -> None:
    world = make(guarantee="at_least_once")
    late = published(world)
    stream = Applying(world)
    ledger = stream.span(insert(ACCOUNT, **account(1))).ledger
    options = late.sink._where.options  # type: ignore[attr-defined]
    before = read_control(world.settings, options.control_topic).states[STREAM]
    over = replace(before, row=replace(before.row, epoch=late.lease.epoch, next_offset=0))
    sending = late.sink._transactions  # type: ignore[attr-defined]
    sending.begin()
    sending.seal(options.control_topic, [(str(STREAM).encode(), record_of(over, start=0, records={}))])
    sending.commit()
    assert world.sink().read_ledger(STREAM) == ledger
    assert stream.span(insert(ACCOUNT, **account(2))).ledger.next_offset == 20
    assert world.rows(ACCOUNT) == texts(account(1), account(2))


# ---- planted bugs ---------------------------------------------------------------------------------------------------


def _control_record_on_its_own(patch: pytest.MonkeyPatch) -> None:
    """The ledger moves whether or not the rows are committed."""
    close = StreamCommit.close

    def beside(self: StreamCommit, **more: Any) -> StreamState:
        topic, inside = self.where.options.control_topic, self.transactions
        alone = Producer({"bootstrap.servers": inside.settings["bootstrap.servers"]})
        send = inside.send

        def apart(to: str, records: Any, **rest: Any) -> int:
            given = list(records)
            for key, value, *_ in given if to == topic else ():
                alone.produce(to, value, key)
                alone.flush(10)
            return send(to, given, **rest)

        patch.setattr(inside, "send", apart)
        return close(self, **more)

    patch.setattr(StreamCommit, "close", beside)


def _deletes_without_a_tombstone(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(formats.PlainRows, "gone", lambda self, key: ())


def _progress_before_the_rows(patch: pytest.MonkeyPatch) -> None:
    """Whoever ends between the two has lost rows."""
    table = StreamCommit.table

    def early(self: StreamCommit, *given: Any) -> TableWriter:
        if isinstance(self.transactions, Deliveries):
            key, value = str(self.after.row.stream).encode(), record_of(self.after, start=self.start, records={})
            self.transactions.seal(self.where.options.control_topic, [(key, value)])
            self.transactions.commit()
        return table(self, *given)

    patch.setattr(StreamCommit, "table", early)


def _repeats_without_a_mark(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("seamline.sinks.kafka.sink.found_behind", lambda *given, **more: [])


@pytest.mark.parametrize(
    ("plant", "behaviour", "guarantee"),
    [
        (_control_record_on_its_own, a_commit_that_never_arrived_is_found_missing, "exactly_once"),
        (_deletes_without_a_tombstone, inserts_updates_and_deletes_reach_their_rows, "exactly_once"),
        (_progress_before_the_rows, a_stream_with_crashes_ends_with_the_source_s_tables, "at_least_once"),
        (_repeats_without_a_mark, a_commit_that_never_arrived_is_found_missing, "at_least_once"),
    ],
)
def test_a_planted_bug_is_caught(
    make: Any,
    monkeypatch: pytest.MonkeyPatch,
    plant: Callable[[pytest.MonkeyPatch], None],
    behaviour: Behaviour,
    guarantee: str,
) -> None:
    world = make(guarantee=guarantee)
    plant(monkeypatch)
    with pytest.raises(AssertionError):
        behaviour(world)


def test_maintenance_ends_what_dead_runs_have_left(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make(ACCOUNT)
    published_stream = sync_plan((ACCOUNT,))
    world.sink().publish(STREAM, [world.load(ACCOUNT, [account(1)])], publication=publication((ACCOUNT,)))
    whole = world.plan
    world.plan = published_stream.incremental_plan(["account"], "5")
    left = world.plan.stream_id("warehouse")
    world.sink().publish(left, [world.load(ACCOUNT, [])], publication=publication((ACCOUNT,), run_id="pass-5"))
    world.plan = whole
    with closing(KIND.open_maintenance(world.destination)) as maintenance:
        assert {one.stream for one in maintenance.ledgers()} == {str(STREAM), str(left)}
        assert maintenance.let_go().incremental_snapshots == ()
        monkeypatch.setattr("seamline.sinks.kafka.maintenance._KEPT_S", -60)
        gone = maintenance.let_go()
        assert (gone.incremental_snapshots, gone.staged) == ((str(left),), 2)
        assert {one.stream for one in maintenance.ledgers()} == {str(STREAM)}
        assert maintenance.let_go().staged == 0
    assert world.rows(ACCOUNT) == texts(account(1))
    with pytest.raises(Refused, match="gone"):
        world.sink().publish(STREAM, [world.load(TRANSFER, []), *_gone()], publication=publication(run_id="run-2"))


def _gone() -> list[Any]:
    from seamline.ports import Load

    return [Load(ACCOUNT, "nowhere", 0)]


def test_a_stream_goes_on_where_another_owner_left_a_transaction_open(make: Any) -> None:
    world = make()
    published(world)
    dead = world.sink()
    lease = dead.acquire(STREAM)
    options = dead._where.options
    dead._transactions.begin()
    dead._transactions.send(f"{world.declared.prefix}.account", [(b'{"id":1}', b'{"id":1,"name":"open"}', [], BY_KEY)])
    # As far as a worker comes that is killed between its control record and its commit.
    dead._transactions.seal(options.control_topic, [(str(STREAM).encode(), b"{}")])
    assert world.sink().read_ledger(STREAM) == lease.ledger
    stream = Applying(world)
    assert stream.lease.epoch == lease.epoch + 1
    stream.span(insert(ACCOUNT, **account(2)))
    assert world.rows(ACCOUNT) == texts(account(2))
    assert options.control_topic == f"{world.declared.prefix}.control"
