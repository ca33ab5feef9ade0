"""What hangs is ended and named, and a server that works is waited for."""

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, replace

import psycopg
import pytest

from seamline.adapters.connections import Connection
from seamline.databases.postgres import client
from seamline.databases.postgres.read import open_views
from seamline.databases.postgres.watched import connect
from seamline.domain.errors import CommitUnknown, TransientError
from seamline.platform import database as platform
from seamline.sinks.postgres.sink import PostgresSink
from seamline.sources.mariadb import sessions as mariadb_sessions
from seamline.sources.postgres import client as source_client
from seamline.sync.span_loop import run_stream
from tests.contract.behaviours import Applying, account, texts
from tests.contract.worlds import PostgresWorld
from tests.fault.soak.link import Link, State, link_to
from tests.integration.databases import either_of, mariadb_database, postgres_database
from tests.integration.hanging import begun, own_postgres, standby_away, within
from tests.integration.known import known_by_id
from tests.integration.replicated import Server
from tests.integration.test_postgres_publish import publish
from tests.log_topic import ACCOUNT, AUDIT, STREAM, TABLES, LogTopic, ScriptedControl, TopicReader, insert, position
from tests.opened_sink import postgres_sink

SILENCE_S = 1.0
# Silence, look, and the lock on the ledger, each with much to spare.
ENDED_S = 40.0


@pytest.fixture(scope="module")
def server(stack: object) -> Iterator[Server]:
    with own_postgres() as own:
        yield own


@pytest.fixture(scope="module")
def database(server: Server) -> Iterator[Connection]:
    with postgres_database("hanging") as connection:
        yield connection


@pytest.fixture(scope="module")
def bank(stack: object) -> Iterator[Connection]:
    with mariadb_database("hanging") as connection:
        yield connection


@pytest.fixture
def world(database: Connection) -> Iterator[PostgresWorld]:
    made = PostgresWorld(TABLES, database)
    publish(made)
    yield made
    made.close()


def sink_of(world: PostgresWorld, database: Connection, *, silence_s: float = SILENCE_S) -> PostgresSink:
    return postgres_sink(world.plan, world.plan.destinations[0], resolve=either_of(database), silence_s=silence_s)


def streamed(world: PostgresWorld, sink: PostgresSink, log: LogTopic) -> None:
    reader = TopicReader(log)
    with closing(sink):
        run_stream(world.plan, "warehouse", reader=reader, sink=sink, control=ScriptedControl(reader))


def test_a_commit_that_waits_for_a_standby_is_ended_by_name_and_the_ledger_says_what_became_of_it(
    world: PostgresWorld, database: Connection, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Who takes the next epoch waits for the ledger's lock until then: a worker does for a quarter of a minute.
    monkeypatch.setitem(client._SETTINGS, "lock_timeout", "3000")  # noqa: SLF001
    with closing(sink_of(world, database)) as sink:
        stream = Applying(world, sink=sink)
        with standby_away(server):
            with pytest.raises(CommitUnknown, match=r"process \d+, .*synchronous standby.*synchronous_standby_names"):
                within(ENDED_S, lambda: stream.span(insert(ACCOUNT, **account(1))))
            # Its transaction is not to be seen before the standby has it.
            assert world.rows(ACCOUNT) == []
            with pytest.raises(TransientError, match="COMMIT of process .* waits for a synchronous standby"):
                within(ENDED_S, lambda: sink.acquire(STREAM, after_epoch=stream.lease.epoch))
            assert world.rows(ACCOUNT) == []
        ledger = sink.acquire(STREAM, after_epoch=stream.lease.epoch).ledger
        assert ledger.next_offset == stream.next_offset + 10
    assert world.rows(ACCOUNT) == texts(account(1))


def test_a_stream_whose_commit_hung_goes_on_and_doubles_nothing(
    world: PostgresWorld, database: Connection, server: Server
) -> None:
    log = LogTopic()
    log.transaction(insert(AUDIT, actor="x", action="once"))
    with standby_away(server), pytest.raises(TransientError, match="standby"):
        within(2 * ENDED_S, lambda: streamed(world, sink_of(world, database), log))
    log.transaction(insert(AUDIT, actor="x", action="twice"))
    # What hung may have been the commit of its epoch, which is done now: whoever begins at that moment tries again.
    with suppress(TransientError):
        streamed(world, sink_of(world, database), log)
    streamed(world, sink_of(world, database), log)
    assert world.rows(AUDIT) == texts({"actor": "x", "action": "once"}, {"actor": "x", "action": "twice"})


def test_an_epoch_that_cannot_be_committed_is_ended_by_name(
    world: PostgresWorld, database: Connection, server: Server
) -> None:
    with closing(sink_of(world, database)) as sink:
        with standby_away(server), pytest.raises(TransientError, match="take a new epoch: .*synchronous standby"):
            within(ENDED_S, lambda: sink.acquire(STREAM))
        assert sink.acquire(STREAM).ledger.next_offset == 0


def test_without_the_watch_the_same_commit_hangs(world: PostgresWorld, database: Connection, server: Server) -> None:
    with closing(sink_of(world, database, silence_s=math.inf)) as sink:
        stream = Applying(world, sink=sink)
        with standby_away(server):
            hanging = begun(lambda: stream.span(insert(ACCOUNT, **account(1))))
            with pytest.raises(TimeoutError):
                hanging.result(timeout=6 * SILENCE_S)
        assert hanging.result(timeout=ENDED_S).ledger.next_offset == stream.next_offset


def test_a_commit_at_which_the_server_works_for_longer_is_not_ended(world: PostgresWorld, database: Connection) -> None:
    world.session.execute(
        "CREATE FUNCTION settlement.slow() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN PERFORM pg_catalog.pg_sleep(5); RETURN NULL; END$$"
    )
    world.session.execute(
        "CREATE CONSTRAINT TRIGGER slow AFTER INSERT ON settlement.account DEFERRABLE INITIALLY DEFERRED"
        " FOR EACH ROW EXECUTE FUNCTION settlement.slow()"
    )
    with closing(sink_of(world, database, silence_s=2 * SILENCE_S)) as sink:
        stream = Applying(world, sink=sink)
        within(ENDED_S, lambda: stream.span(insert(ACCOUNT, **account(1))))
    assert world.rows(ACCOUNT) == texts(account(1))


# Asks one statement, and raises what Seamline makes of an error.
Ask = Callable[[str], object]


@contextmanager
def destination_view(through: Connection, silence_s: float) -> Iterator[Ask]:
    (view,) = open_views(
        through, tables=(), relations={}, count=1, position_of=lambda _: position(1), silence_s=silence_s
    )
    with closing(view):
        yield view._fetch  # noqa: SLF001


@contextmanager
def source_session(through: Connection, silence_s: float) -> Iterator[Ask]:
    with closing(source_client.open_session(through, silence_s=silence_s)) as session:

        def ask(statement: str) -> object:
            with source_client.translated(through):
                return session.execute(statement.encode())

        yield ask


@contextmanager
def platform_session(through: Connection, silence_s: float) -> Iterator[Ask]:
    with (
        known_by_id(through, platform.CONNECTION_ID, "postgres"),
        closing(platform.open_session(silence_s=silence_s)) as session,
    ):

        def ask(statement: str) -> object:
            try:
                return session.execute(statement.encode())
            except psycopg.Error as exc:
                raise platform.translated(exc) from exc

        yield ask


@contextmanager
def mariadb_view(through: Connection, silence_s: float) -> Iterator[Ask]:
    session = mariadb_sessions.open_session(through, silence_s=silence_s)
    (view,) = mariadb_sessions.views_at([session], connection=through, position=position(1))
    with closing(view):
        yield view._fetch  # noqa: SLF001


OPENED = [destination_view, source_session, platform_session, mariadb_view]


@dataclass(frozen=True, slots=True)
class Asked:
    """A session behind a link of its own, of which nobody waits for longer than two seconds for nothing."""

    link: Link
    ask: Ask

    def begun(self, statement: str = "SELECT 1") -> "Future[object]":
        return begun(lambda: self.ask(statement))


@pytest.fixture
def asked(database: Connection, bank: Connection) -> Iterator[dict[str, Asked]]:
    """One of each kind, by its name: they wait at the same time."""
    with ExitStack() as around:
        made = {}
        for opened in OPENED:
            behind = bank if opened is mariadb_view else database
            link = around.enter_context(link_to(behind.host, behind.port))
            through = replace(behind, host="127.0.0.1", port=link.port)
            made[opened.__name__] = Asked(link, around.enter_context(opened(through, 2 * SILENCE_S)))
            around.callback(setattr, link, "state", State.OPEN)
        yield made


def test_a_question_behind_a_proxy_that_swallows_everything_is_ended_by_name(asked: dict[str, Asked]) -> None:
    for one in asked.values():
        one.link.state = State.SILENT
    ends = {name: one.begun() for name, one in asked.items()}
    for name, end in ends.items():
        port = asked[name].link.port
        with pytest.raises(TransientError, match=rf"127.0.0.1:{port} \(.*does not answer another session either"):
            end.result(timeout=ENDED_S)


def test_a_session_that_something_between_has_forgotten_is_ended_by_name(asked: dict[str, Asked]) -> None:
    for one in asked.values():
        one.link.forget()
    for end in [one.begun() for one in asked.values()]:
        with pytest.raises(TransientError, match="nothing to do for it, so the statement or its answer was lost"):
            end.result(timeout=ENDED_S)


def test_a_server_that_works_for_longer_than_the_silence_is_waited_for(asked: dict[str, Asked]) -> None:
    works = {mariadb_view.__name__: "SELECT SLEEP(5)"}
    ends = [one.begun(works.get(name, "SELECT pg_sleep(5)")) for name, one in asked.items()]
    for end in ends:
        end.result(timeout=ENDED_S)


def test_the_platform_database_is_asked_again_by_another_session_and_the_log_says_why(
    database: Connection, caplog: pytest.LogCaptureFixture
) -> None:
    with link_to(database.host, database.port) as link:
        through = replace(database, host="127.0.0.1", port=link.port)
        with (
            known_by_id(through, platform.CONNECTION_ID, "postgres"),
            closing(platform.Database(lambda: platform.open_session(silence_s=2 * SILENCE_S))) as asked_again,
        ):
            asked_again.transact(lambda session: session.execute("SELECT 1"))
            link.forget()
            within(ENDED_S, lambda: asked_again.transact(lambda session: session.execute("SELECT 1")))
    assert "nothing to do for it, so the statement or its answer was lost" in caplog.text


def test_a_session_without_a_watch_behind_such_a_proxy_hangs(database: Connection) -> None:
    with link_to(database.host, database.port) as link:
        through = replace(database, host="127.0.0.1", port=link.port)
        with source_session(through, math.inf) as ask:
            link.state = State.SILENT
            hanging = begun(lambda: ask("SELECT 1"))
            with pytest.raises(TimeoutError):
                hanging.result(timeout=6 * SILENCE_S)
            link.state = State.OPEN
            hanging.result(timeout=ENDED_S)


def test_a_question_beyond_its_limit_is_ended_by_name(database: Connection) -> None:
    session = connect(silence_s=SILENCE_S, limit_s=2.0, **source_client.libpq_arguments(database))
    with closing(session), pytest.raises(psycopg.OperationalError, match="longer than its limit of 2 s"):
        within(ENDED_S, lambda: session.execute("SELECT pg_sleep(60)"))
