"""Redis as a destination: the behaviour suite over a real server, and what is its own."""

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Timer

import pytest

from seamline import settings
from seamline.adapters.connections import known_ids
from seamline.cli.main import main
from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.changes import TableChanges
from seamline.domain.digest import KeyedDigest, Segment
from seamline.domain.errors import (
    CommitUnknown,
    ConfigError,
    Fenced,
    GateFailed,
    Refused,
    TransientError,
)
from seamline.kinds.bulk import ArrowRows
from seamline.kinds.found import sink_kind
from seamline.plan.model import TablePlan
from seamline.ports import Commit, Lease, Load, Progress, Staged
from seamline.ports.maintenance import INCREMENTAL_KEPT_DAYS
from seamline.sinks.redis import loads, maintenance, placing, preflight, read_back, sink
from seamline.sinks.redis.loads import load_rows
from seamline.sinks.redis.reading import fetched
from seamline.sinks.redis.session import open_session
from seamline.sinks.redis.sink import RedisSink
from seamline.values import digest
from seamline.values.arrow import schema_of
from seamline.values.build import batch_of
from tests import redis_server
from tests.certificates import Authority
from tests.contract.behaviours import Applying, Behaviour, account, published, texts
from tests.contract.every_kind import VALUES
from tests.contract.filter_behaviours import FILTER_BEHAVIOURS
from tests.contract.going_back_behaviours import GOING_BACK_BEHAVIOURS
from tests.contract.joining_behaviours import carrying, passed
from tests.contract.keyed_behaviours import OF_KEYED_TABLES, leg
from tests.contract.redis_world import RedisWorld
from tests.contract.repair_behaviours import REPAIR_BEHAVIOURS
from tests.contract.test_planted_bugs import caught_by
from tests.contract.unavailable_value_behaviours import LEFT_OUT_BEHAVIOURS
from tests.daemon import free_port
from tests.log_topic import ACCOUNT, STREAM, TRANSFER, delete, insert, position, publication, update
from tests.redis_server import RedisServer
from tests.toast_log import NOTE

KEYED = (ACCOUNT, TRANSFER)


@pytest.fixture(scope="module")
def server() -> Iterator[RedisServer]:
    with redis_server.running(settings.load()) as running:
        yield running


@pytest.fixture
def world(server: RedisServer) -> Iterator[RedisWorld]:
    with opened(KEYED, server) as made:
        yield made


@contextmanager
def opened(tables: Sequence[Table], server: RedisServer, *, rows_max: int = 250_000) -> Iterator[RedisWorld]:
    world = RedisWorld(tables, server, rows_max=rows_max)
    try:
        yield world
    finally:
        world.close()


# ---- the suite ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "behaviour",
    (*OF_KEYED_TABLES, *FILTER_BEHAVIOURS, *REPAIR_BEHAVIOURS, *GOING_BACK_BEHAVIOURS),
    ids=lambda behaviour: behaviour.__name__,
)
def test_redis_keeps_the_contract_of_every_sink(behaviour: Behaviour, world: RedisWorld) -> None:
    behaviour(world)


@pytest.mark.parametrize("behaviour", LEFT_OUT_BEHAVIOURS, ids=lambda behaviour: behaviour.__name__)
def test_redis_finds_the_values_that_a_log_left_out(behaviour: Behaviour, server: RedisServer) -> None:
    with opened([NOTE], server) as world:
        behaviour(world)


# ---- planted bugs ---------------------------------------------------------------------------------------------------


class LedgerBeforeRows(RedisSink):
    """The ledger by one call, the rows by another."""

    def commit(self, lease: Lease, staged: Sequence[Staged], *, progress: Progress) -> Commit:
        super().commit(lease, [], progress=progress)
        there = replace(progress.span, start=progress.span.end, transactions=0)
        return super().commit(lease, staged, progress=replace(progress, span=there))


def del_forgotten(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, sink, "COMMIT", "if row.is_there or table_.truncate then redis.call('DEL', key) end", "")


def replay_applied_twice(patch: pytest.MonkeyPatch) -> None:
    _say_instead(
        patch, sink, "COMMIT", "if stands[place] ~= wanted then", "if place ~= 2 and stands[place] ~= wanted then"
    )


def epoch_not_compared(patch: pytest.MonkeyPatch) -> None:
    _say_instead(
        patch, sink, "COMMIT", "if stands[place] ~= wanted then", "if place ~= 3 and stands[place] ~= wanted then"
    )


def index_forgotten(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, sink, "COMMIT", "redis.call('ZADD', table_.index, 0, row[1])", "")


def stored_values_forgotten(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, sink, "COMMIT", "value = row.stored[place]", "value = nil")


def replaced_rows_left_behind(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, placing, "PLACE", "unlink_rows(move.to.rows, move.to.index)", "")


def staged_rows_not_counted(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, placing, "PLACE", "if there ~= (move.count", "if false and there ~= (move.count")


def stream_not_fenced_at_a_joining(patch: pytest.MonkeyPatch) -> None:
    _say_instead(patch, placing, "PLACE", "call('HINCRBY', ledger, 'epoch', 1)", "call('HSETNX', ledger, 'epoch', 1)")


def _say_instead(patch: pytest.MonkeyPatch, module: object, name: str, right: str, wrong: str) -> None:
    script = str(getattr(module, name))
    assert right in script, "the planted bug no longer fits the script"
    patch.setattr(module, name, script.replace(right, wrong))


PLANTED: dict[Callable[[pytest.MonkeyPatch], None], str] = {
    del_forgotten: "inserts_updates_and_deletes_reach_their_rows",
    replay_applied_twice: "a_replayed_span_of_keyed_rows_changes_nothing",
    epoch_not_compared: "an_older_lease_can_never_commit_again",
    index_forgotten: "inserts_updates_and_deletes_reach_their_rows",
    replaced_rows_left_behind: "a_second_publish_of_keyed_tables_replaces_all_their_rows",
    staged_rows_not_counted: "a_publish_of_a_staged_table_that_lost_a_row_changes_nothing",
    stream_not_fenced_at_a_joining: "the_stream_of_before_is_fenced",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_wrong_script_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = PLANTED[plant]
    plant(monkeypatch)
    behaviours = [one for one in OF_KEYED_TABLES if one.__name__ == expected]
    assert caught_by(behaviours, lambda: RedisWorld(KEYED, server)) == {expected}


def test_values_that_a_script_does_not_keep_are_missed(server: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    stored_values_forgotten(monkeypatch)
    behaviours = [one for one in LEFT_OUT_BEHAVIOURS if one.__name__.startswith("an_update_that_lacks")]
    assert len(caught_by(behaviours, lambda: RedisWorld([NOTE], server))) == 1


def test_a_ledger_that_is_set_before_the_rows_in_two_calls_is_caught(server: RedisServer) -> None:
    expected = "a_keyed_stream_with_crashes_ends_with_the_source_s_tables"
    behaviours = [one for one in OF_KEYED_TABLES if one.__name__ == expected]
    assert caught_by(behaviours, lambda: RedisWorld(KEYED, server, kind=LedgerBeforeRows)) == {expected}


# ---- what a crash leaves --------------------------------------------------------------------------------------------


def test_after_each_crash_of_the_server_ledger_and_rows_agree() -> None:
    """What was confirmed is there, and of the span under way all or nothing."""
    with redis_server.running(settings.load()) as server, opened(KEYED, server) as world:
        published(world)
        for after_s in (0.05, 0.1, 0.2):
            stream = Applying(world)
            timer = Timer(after_s, server.kill)
            timer.start()
            with pytest.raises((CommitUnknown, TransientError)):
                while True:
                    number = stream.next_offset
                    stream.span(insert(ACCOUNT, **account(number)), insert(TRANSFER, **leg(number // 10)))
            timer.join()
            confirmed = stream.next_offset
            world.session.client.connection.disconnect()
            server.start()
            ledger = world.sink().read_ledger(STREAM)
            assert ledger is not None
            assert ledger.next_offset in (confirmed, confirmed + 10)
            spans = range(0, ledger.next_offset, 10)
            assert world.rows(ACCOUNT) == texts(*map(account, spans))
            assert world.rows(TRANSFER) == texts(*(leg(n // 10) for n in spans))
        assert Applying(world).span().ledger.next_offset > 100, "nothing was written between the crashes"


def test_a_server_that_came_back_empty_ends_its_stream_by_what_is_to_do(world: RedisWorld) -> None:
    stream = carrying(world, ACCOUNT)
    world.admin.flushall()
    with pytest.raises(Fenced, match="its ledger is gone") as ended:
        stream.span(insert(ACCOUNT, **account(2)))
    assert "onboard again" in ended.value.hint
    assert world.rows(ACCOUNT) == []


# ---- what is refused before anything is written ---------------------------------------------------------------------


def untouched(world: RedisWorld, stream: Applying) -> None:
    assert world.rows(ACCOUNT) == texts(account(1))
    known = world.sink().read_ledger(STREAM)
    assert known is not None
    assert known.next_offset == stream.next_offset


def test_more_rows_than_one_script_may_write_are_refused_by_name(server: RedisServer) -> None:
    with opened(KEYED, server, rows_max=4) as world:
        stream = published(world)
        stream.span(insert(ACCOUNT, **account(1)))
        with pytest.raises(Refused, match="would write 5 rows or more at once, and this destination's `rows_max` is 4"):
            stream.span(*[insert(ACCOUNT, **account(n)) for n in range(2, 7)])
        untouched(world, stream)
        load = world.load(ACCOUNT, [account(n) for n in range(4)])
        with pytest.raises(Refused, match="would write 5 rows"):
            world.sink().publish(STREAM, [load], publication=publication([ACCOUNT], run_id="run-2"))
        untouched(world, Applying(world))
        with pytest.raises(Refused, match="table account has more than 4 rows"):
            world.load(ACCOUNT, [account(n) for n in range(5)])
        stream = Applying(world)
        stream.span(*[insert(ACCOUNT, **account(n)) for n in range(2, 6)])
        with pytest.raises(Refused, match="would write 5 rows"):
            emptied = stream.sink.stage(stream.lease, TableChanges("account", truncate_first=True))
            stream.sink.commit(stream.lease, [emptied], progress=stream.progress())
        assert len(world.rows(ACCOUNT)) == 5


def test_a_login_that_lost_a_right_writes_nothing(world: RedisWorld, server: RedisServer) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    with closing(server.admin()) as admin:
        for right in ("del", "zadd", "rpush"):
            admin.execute_command("ACL", "SETUSER", "seamline_writer", f"-{right}")
            with pytest.raises(ConfigError, match=f"no right to {right.upper()}"):
                stream.span(update(ACCOUNT, account(1), account(1, "b")), insert(TRANSFER, **leg(1)))
            untouched(world, stream)
            admin.execute_command("ACL", "SETUSER", "seamline_writer", f"+{right}")


def test_a_key_of_somebody_else_s_stops_the_stream_or_is_overwritten(world: RedisWorld) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)))
    client, rows = world.admin, world.keys.live("settlement", "transfer")
    client.set(rows.index, "mine")
    with pytest.raises(Refused, match="was written by somebody else"):
        stream.span(insert(ACCOUNT, **account(2)), insert(TRANSFER, **leg(1)))
    untouched(world, stream)
    client.delete(rows.index)
    client.set(f"{rows.rows}7:1", "mine")
    stream.span(update(TRANSFER, leg(1), leg(1, "2.0000")))
    assert world.rows(TRANSFER) == texts(leg(1, "2.0000"))
    client.set(f"{rows.rows}7:2", "mine")
    (batch,) = stream.batches(insert(TRANSFER, **leg(2)))
    emptied = stream.sink.stage(stream.lease, replace(batch, truncate_first=True))
    stream.sink.commit(stream.lease, [emptied], progress=stream.progress())
    assert world.rows(TRANSFER) == texts(leg(2))
    client.set(world.keys.own("streams"), "mine")
    with pytest.raises(Refused, match="was written by somebody else"):
        world.sink().publish(STREAM, [world.load(ACCOUNT, [])], publication=publication([ACCOUNT], run_id="run-2"))
    assert world.rows(ACCOUNT) == texts(account(1))


def test_a_table_of_another_sync_under_the_same_prefix_is_left_alone(world: RedisWorld) -> None:
    carrying(world, ACCOUNT)
    other = replace(STREAM, sync="loans")
    with pytest.raises(Refused, match="was not made by this sync \\(it is of: settlement@warehouse\\)"):
        world.sink().publish(other, [world.load(ACCOUNT, [])], publication=publication([ACCOUNT], run_id="run-9"))
    assert world.rows(ACCOUNT) == texts(account(1))


def test_staged_rows_are_compared_once_more_and_a_repeated_publish_is_found_done(world: RedisWorld) -> None:
    load = world.load(ACCOUNT, [account(1), account(2)])
    rows = batch_of(ACCOUNT, [(1, "a"), (2, "a")])
    load = replace(load, digest=KeyedDigest("k", digest.segment_digest(ACCOUNT, rows, run_key="k")))
    key = f"{world.keys.staged(load.staged_as).rows}2"
    world.admin.hset(key, "name", "changed")
    with pytest.raises(GateFailed, match="the staged table of account now holds other values"):
        world.sink().publish(STREAM, [load], publication=publication([ACCOUNT]))
    assert world.sink().read_ledger(STREAM) is None
    world.admin.hset(key, "name", "a")
    first = world.sink().publish(STREAM, [load], publication=publication([ACCOUNT]))
    assert world.sink().publish(STREAM, [load], publication=publication([ACCOUNT])) == first


# ---- reading back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", VALUES, ids=lambda column: column.name)
def test_every_value_comes_back_as_the_source_has_it(column: Column, world: RedisWorld) -> None:
    number = Column("number", Kind.INTEGER, "int", nullable=False, length=32)
    table = Table("kept", (number, replace(column, nullable=True)), ("number",))
    rows = batch_of(table, list(enumerate([*VALUES[column], None])))
    place = world.place(table)
    load_rows(world.session, world.destination, place, ArrowRows(schema_of(table), iter([rows])))
    where = world.keys.staged(place.name)
    with closing(fetched(world.session, {table: where}, position(1), ledger=world.keys.own("nothing"))) as view:
        found = view.digests(Segment(table.name), run_key="k")[0]
        assert found == digest.segment_digest(table, rows, run_key="k")
        texts_found = view.rows(table.name, [str(one) for one in range(rows.num_rows)])
    expected = digest.canonical_texts(column, rows.column(1)).to_pylist()
    assert [texts_found[str(place)][column.name] for place in range(rows.num_rows)] == expected


def test_keys_of_every_kind_keep_their_rows_apart(world: RedisWorld) -> None:
    column = next(one for one in VALUES if one.name == "p_text")
    table = Table(
        "by_text", (replace(column, nullable=False), Column("n", Kind.INTEGER, "int", length=32)), ("p_text",)
    )
    values = [*dict.fromkeys([*VALUES[column], "a:b", "a%3Ab", "{x}", "*"])]
    rows = batch_of(table, [(value, number) for number, value in enumerate(values)])
    place = world.place(table)
    assert load_rows(world.session, world.destination, place, ArrowRows(schema_of(table), iter([rows]))) == len(values)
    where = {table: world.keys.staged(place.name)}
    with closing(fetched(world.session, where, position(1), ledger=world.keys.own("nothing"))) as view:
        assert view.digests(Segment(table.name), run_key="k")[0].rows == len(values)


def test_a_read_that_a_commit_overtakes_is_not_compared(
    world: RedisWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = published(world)
    stream.span(insert(ACCOUNT, **account(1)), insert(TRANSFER, **leg(1)))
    monkeypatch.setattr(read_back, "resolve", server.resolve)
    (view,) = sink_kind("redis").open_live(world.plan, world.destination, 1)  # type: ignore[attr-defined]
    assert (view.position, view.digests(Segment("account"), run_key="k")[0].rows) == (position(1001), 1)
    stream.span(insert(ACCOUNT, **account(2)))
    assert view.digests(Segment("account"), run_key="k")[0].rows == 1, "what was read stays as it was"
    view.close()
    right = read_back.fetched

    def overtaken(*given: object, **more: object) -> object:
        stream.span(insert(ACCOUNT, **account(3)))
        return right(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(read_back, "fetched", overtaken)
    with pytest.raises(TransientError, match="the ledger moved while table account was read"):
        read_back.open_live(world.plan, world.destination, 1)


def test_findings_are_reported_once_and_again_after_the_server_went_back(
    world: RedisWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(read_back, "resolve", server.resolve)
    stream = published(world)
    nothing, none_yet = read_back.findings_of(world.destination, STREAM, after=read_back.FindingsReported())
    stream.span(delete(ACCOUNT, **account(1)))
    found, after = read_back.findings_of(world.destination, STREAM, after=none_yet)
    assert (nothing, [one.kind for one in found], after.number) == ((), ["delete met no row"], 1)
    assert read_back.findings_of(world.destination, STREAM, after=after) == ((), after)
    world.admin.delete(world.keys.of_stream("findings", STREAM))
    world.admin.hdel(world.keys.of_stream("ledger", STREAM), "findings")
    stream.span(delete(ACCOUNT, **account(2)))
    again, _ = read_back.findings_of(world.destination, STREAM, after=after)
    assert [one.key for one in again] == ['{"id": 2}']


# ---- loads, maintenance, preflight ----------------------------------------------------------------------------------


def test_maintenance_lets_go_what_dead_runs_have_left(
    world: RedisWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (maintenance, loads):
        monkeypatch.setattr(module, "resolve", server.resolve)
    carrying(world, ACCOUNT).span()
    joining = passed(world, TRANSFER, rows=[leg(1)], at=5)
    world.load(ACCOUNT, [account(8)])
    with closing(maintenance.open_maintenance(world.destination)) as living:
        assert {one.stream for one in living.ledgers()} == {str(STREAM), str(joining.incremental_stream)}
        let_go = living.let_go()
        assert (let_go.incremental_snapshots, let_go.staged) == ((), 0)
        client, keys = world.admin, world.keys
        old = int(client.time()[0]) - (INCREMENTAL_KEPT_DAYS + 8) * 86_400
        client.hset(keys.of_stream("ledger", joining.incremental_stream or ""), "updated_at", old)
        for name, of in loads.staged_tables(world.session, keys).items():
            client.hset(keys.own("staged"), name, loads.json.dumps({**of, "made": old}))
        let_go = living.let_go()
        assert (let_go.incremental_snapshots, let_go.staged) == ((str(joining.incremental_stream),), 1)
        assert [one.stream for one in living.ledgers()] == [str(STREAM)]
    left = {key.decode() for key in client.scan_iter("*")}
    assert not [key for key in left if "incremental" in key or "@staged" in key or "@written" in key]
    assert world.rows(ACCOUNT) == texts(account(1))


def test_an_attempt_removes_what_an_earlier_one_of_its_run_has_left(world: RedisWorld, server: RedisServer) -> None:
    def area() -> loads.LoadedTables:
        return loads.LoadedTables(server.publisher, world.destination, run_id="run-1")

    first, second = area(), area()
    place = first.create([ACCOUNT])["account"]
    rows = ArrowRows(schema_of(ACCOUNT), iter([batch_of(ACCOUNT, [(1, "a"), (2, None)])]))
    assert load_rows(world.session, world.destination, place, rows) == 2
    assert first.progress().written_bytes > 0
    second.create([ACCOUNT])
    again = ArrowRows(schema_of(ACCOUNT), iter([batch_of(ACCOUNT, [(1, "a")])]))
    with pytest.raises(Refused, match="is gone"):
        load_rows(world.session, world.destination, place, again)
    with pytest.raises(Refused, match="the staged table of account is gone"):
        world.sink().publish(STREAM, [Load(ACCOUNT, place.name, 2)], publication=publication([ACCOUNT]))
    second.drop()
    assert not list(world.admin.scan_iter("*staged*"))


def test_preflight_names_what_would_lose_rows(
    world: RedisWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "resolve", server.resolve)

    def found(rows_max: str = "250000") -> dict[str, bool]:
        destination = replace(world.destination, options=(("prefix", "settlement"), ("rows_max", rows_max)))
        return {one.what: one.is_fatal for one in preflight.problems(world.plan, destination)}

    ((unasked, is_fatal),) = found().items()
    assert (unasked.split(":")[1].strip(), is_fatal) == ("its appendfsync cannot be asked", False)
    with closing(server.admin()) as admin:
        admin.execute_command("ACL", "SETUSER", "seamline_publisher", "+config|get")
        assert found() == {}
        admin.config_set("appendfsync", "everysec")
        admin.config_set("maxmemory-policy", "allkeys-lru")
        admin.execute_command("ACL", "SETUSER", "seamline_writer", "-rename")
        try:
            said = found()
        finally:
            admin.config_set("appendfsync", "always")
            admin.config_set("maxmemory-policy", "noeviction")
            admin.execute_command("ACL", "SETUSER", "seamline_writer", "+rename")
            admin.execute_command("ACL", "SETUSER", "seamline_publisher", "-config|get")
    assert sorted(said.values()) == [False, True, True]
    text = " ".join(said)
    for part in (
        "appendfsync is everysec: a crash loses the commits of about a second",
        "allkeys-lru",
        "to RENAME keys",
    ):
        assert part in text
    many = replace(world.plan, tables=(TablePlan("account", table=replace(ACCOUNT, rows_estimate=300_000)),))
    monkeypatch.setattr(world, "plan", many)
    assert any("about 300,000 rows, and its `rows_max` is 250,000" in what for what in found())


def test_preflight_names_a_table_that_another_sync_has_made(
    world: RedisWorld, server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(preflight, "resolve", server.resolve)
    carrying(world, ACCOUNT)
    mine = [one.what for one in preflight.problems(world.plan, world.destination) if one.is_fatal]
    other = replace(world.plan, sync="loans")
    (theirs,) = (one.what for one in preflight.problems(other, world.destination) if one.is_fatal)
    assert (mine, theirs) == (
        [],
        "destination warehouse: table account is there already, made by settlement@warehouse",
    )


# ---- connections ----------------------------------------------------------------------------------------------------


def test_a_session_is_encrypted_as_its_connection_asks_for(tmp_path: Path) -> None:
    authority, other = Authority(tmp_path / "ca"), Authority(tmp_path / "other")
    own = authority.server("localhost")
    tls_port = free_port()
    with redis_server.running(
        settings.load(),
        tls_port=str(tls_port),
        tls_cert_file=str(own.certificate),
        tls_key_file=str(own.key),
        tls_ca_cert_file=str(authority.ca),
        tls_auth_clients="no",
    ) as server:
        there = replace(server.publisher, host="localhost", port=tls_port)
        for extra in (
            {"sslmode": "require"},
            {"sslmode": "verify-ca", "sslrootcert": str(authority.ca)},
            {"sslmode": "verify-full", "sslrootcert": str(authority.ca)},
        ):
            with closing(open_session(replace(there, extra=extra), rows_max=1)) as session:
                assert session.client.ping()
        for extra, host in (
            ({}, "localhost"),
            ({"sslmode": "verify-ca", "sslrootcert": str(other.ca)}, "localhost"),
            ({"sslmode": "verify-full", "sslrootcert": str(authority.ca)}, "127.0.0.1"),
        ):
            with pytest.raises(TransientError, match="Redis could not connect to warehouse"):
                open_session(replace(there, host=host, extra=extra), rows_max=1)
        with pytest.raises(ConfigError, match="connect to warehouse"):
            open_session(replace(server.publisher, password="wrong"), rows_max=1)


def test_connect_stores_a_login_that_the_server_lets_in_and_names_the_right_that_it_lacks(
    server: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SEAMLINE_CONNECTIONS", str(tmp_path / "connections.json"))
    monkeypatch.setenv("SEAMLINE_DECLARATIONS", str(tmp_path))
    known = server.publisher
    url = f"redis://{known.login}@{known.host}:{known.port}"

    def added(*more: str, password: str = redis_server.PASSWORD) -> tuple[int, str]:
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{password}\n"))
        return main(["connect", "add", "cache", url, *more]), "".join(capsys.readouterr())

    code, said = added(password="another one")
    assert (code, known_ids()) == (2, frozenset())
    assert "invalid username-password pair" in said
    assert "check login and password of its connection; nothing was stored" in said
    assert "another one" not in said
    code, said = added()
    assert (code, known_ids()) == (0, {"cache"}), said
    assert "cache: Redis 8." in said
    assert "  can make and write tables\n" in said
    (tmp_path / "destinations").mkdir()
    for prefix, can in ((redis_server.PREFIX, "can keep rows in"), ("other", "cannot keep rows in")):
        text = f"destination: cache\nkind: redis\nconnection: cache\nprefix: {prefix}\n"
        (tmp_path / "destinations" / "cache.yaml").write_text(text, encoding="utf-8")
        code, said = added("--replace")
        assert f"  {can} {prefix}" in said
        assert main(["connect", "test", "cache"]) == int(prefix == "other")
        capsys.readouterr()
