"""Servers that take encrypted sessions only: each client is let in by the right settings and by no others, and a
capture and its stream go on by themselves when their logins are rotated."""

import threading
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from seamline import registry
from seamline.adapters.connect import debezium_capture as connect_capture
from seamline.adapters.connect.debezium_capture import open_capture, open_topics
from seamline.adapters.connect.handed_over import hand_over, java_client_settings
from seamline.adapters.connect.rest import ConnectClient
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.kafka.client import client_settings
from seamline.adapters.kafka.command_line import CLIENT as KAFKA
from seamline.adapters.kafka.topics import CaptureTopics
from seamline.databases.mysql import client as mariadb_client
from seamline.databases.postgres import client as postgres_client
from seamline.domain.digest import Segment
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.ledger import StreamId
from seamline.kinds.bulk import Wanted
from seamline.plan.document import plan_to_json
from seamline.plan.model import SyncPlan
from seamline.platform import migrate
from seamline.platform.database import Database
from seamline.platform.streams import PlatformStreamDirector
from seamline.ports import Marker
from seamline.sinks.kafka.kind import KIND
from seamline.sinks.lake.catalogue import Catalogue
from seamline.sinks.lake.postgres_store import PostgresLakeStore
from seamline.sources.kafka.source import open_for_tasks
from seamline.sources.postgres import client as postgres_source_client
from seamline.sync.capture_lifecycle import ensure_capture
from seamline.sync.onboard import publish
from seamline.sync.snapshot import take_snapshot
from seamline.sync.source_watch import Rhythm, SourceWatch, SourceWatchThread
from seamline.sync.stream_host import Outcome
from seamline_spark.stream_host.task import StreamTask, run_one
from tests.certificates import Authority
from tests.conftest import RunningStack
from tests.contract.behaviours import account, published, texts
from tests.contract.kafka_world import KafkaWorld
from tests.contract.lake_worlds import CATALOG, PostgresLakeWorld
from tests.integration.captured import Captured, captured, replay
from tests.integration.captured_postgres import captured_postgres
from tests.integration.captured_topics import NoTasks, captured_topics_of_others
from tests.integration.connect_worker import ConnectWorker, connect_worker
from tests.integration.databases import postgres, postgres_database
from tests.integration.encrypted import WITH_CERTIFICATE, Encrypted, encrypted
from tests.integration.known import destination_plan
from tests.integration.snapshot_run import Records, run_of, tools_of
from tests.log_topic import ACCOUNT, STREAM, delete, insert
from tests.log_topic import TABLES as TABLES_OF_THE_LOG
from tests.opened_sink import postgres_sink
from tests.waiting import wait_until

TABLES = ("account", "audit")
WAREHOUSE = destination_plan("warehouse", "bank")


@pytest.fixture(scope="module")
def servers(stack: RunningStack) -> Iterator[Encrypted]:
    with encrypted() as made:
        yield made


@pytest.fixture(scope="module")
def other(servers: Encrypted) -> Authority:
    """A CA that signed nothing of theirs, under the same name."""
    return Authority(servers.folder / "other")


def changed(connection_id: str, **extra: str) -> Connection:
    """Of the file, with other settings; "" takes one away."""
    known = resolve(connection_id)
    return replace(known, extra={name: text for name, text in {**known.extra, **extra}.items() if text})


def postgres_version(connection: Connection) -> object:
    with closing(postgres_client.open_session(connection, application_name="test")) as session:
        return session.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()


def postgres_source_version(connection: Connection) -> object:
    with closing(postgres_source_client.open_session(connection)) as session:
        return session.execute("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()").fetchone()


def mariadb_cipher(connection: Connection) -> object:
    with closing(mariadb_client.open_session(connection)) as session:
        ((_, cipher),) = mariadb_client.query(session, "SHOW STATUS LIKE 'Ssl_cipher'")
        return (bool(cipher),)


DATABASES = {
    "destination": (postgres_version, "warehouse_writer"),
    "postgres source": (postgres_source_version, "warehouse_writer"),
    "mariadb source": (mariadb_cipher, "core_bank"),
}


@pytest.mark.parametrize("name", DATABASES)
def test_a_database_is_reached_by_the_right_settings_and_by_no_others(
    name: str, servers: Encrypted, other: Authority
) -> None:
    ask, connection_id = DATABASES[name]
    assert ask(changed(connection_id)) == (True,)
    by_address = replace(changed(connection_id, sslmode="verify-ca"), host="127.0.0.1")
    assert ask(by_address) == (True,)
    assert ask(replace(by_address, extra={"sslmode": "require"})) == (True,)
    refused = {
        "another CA": changed(connection_id, sslrootcert=str(other.ca)),
        "another CA, asked for by require": changed(connection_id, sslmode="require", sslrootcert=str(other.ca)),
        "another host name": replace(changed(connection_id), host="127.0.0.1"),
        "in the clear": changed(connection_id, sslmode="disable", sslrootcert=""),
    }
    for what, connection in refused.items():
        with pytest.raises(ConfigError) as said:
            ask(connection)
        assert "sslmode" in said.value.hint, what
        assert f"`{connection_id}`" in said.value.message, what


def test_a_login_that_needs_a_certificate_is_let_in_with_it_alone(servers: Encrypted) -> None:
    stranger = servers.authority.client("somebody_else")
    capture = "core_bank_capture"
    in_postgres = {"kind": "postgres", "port": resolve("warehouse").port, "database": "postgres"}
    assert mariadb_cipher(resolve(capture)) == (True,)
    assert postgres_source_version(replace(resolve(capture), **in_postgres)) == (True,)
    without = changed(capture, sslcert="", sslkey="")
    with pytest.raises(ConfigError, match="Access denied") as said:
        mariadb_cipher(without)
    assert "sslcert" in said.value.hint
    with pytest.raises(ConfigError, match="requires a valid client certificate"):
        postgres_source_version(replace(without, **in_postgres))
    of_another = changed(capture, sslcert=str(stranger.certificate), sslkey=str(stranger.key))
    with pytest.raises(ConfigError, match="refused login"):
        postgres_source_version(replace(of_another, **in_postgres))


def test_the_ledger_and_the_catalogue_of_a_lake_are_reached_by_the_right_settings_and_by_no_others(
    servers: Encrypted, other: Authority, tmp_path: Path
) -> None:
    with (
        postgres_database("encrypted_lake") as publisher,
        closing(PostgresLakeWorld(TABLES_OF_THE_LOG, publisher, tmp_path / "lake")) as world,
    ):
        published(world).span(insert(ACCOUNT, **account(1)))
        assert world.rows(ACCOUNT) == texts(account(1))
        wrong = replace(publisher, extra={**publisher.extra, "sslrootcert": str(other.ca)})
        with (
            closing(PostgresLakeStore(world.destination, Catalogue(CATALOG), resolve=lambda _: wrong)) as store,
            pytest.raises(ConfigError, match=f"`{publisher.connection_id}`"),
        ):
            store.read_ledger(STREAM)


def test_kafka_is_reached_by_the_right_settings_and_by_no_others(servers: Encrypted, other: Authority) -> None:
    def topics(kafka: Connection, timeout_s: float = 30.0) -> CaptureTopics:
        return CaptureTopics(client_settings(kafka), request_timeout_s=timeout_s)

    def refusal(kafka: Connection) -> ConfigError | None:
        """Of one short question; None while the client has not heard why it gets no answer."""
        with pytest.raises((ConfigError, TransientError)) as said:
            topics(kafka, timeout_s=0.5).topic_id("encrypted.log")
        return said.value if isinstance(said.value, ConfigError) else None

    right = topics(resolve("kafka"))
    right.ensure_log("encrypted.log")
    # librdkafka does not ask for sizes: a client of our own does, with certificate and login.
    space = right.space("encrypted.log")
    assert space.size_bytes == 0 and space.free_bytes, "the broker says what its disk has free"
    for bytes_per_s in (100_000, None, None):
        right.limit_producer("seamline-encrypted", bytes_per_s, topic="encrypted.log")
    plain = replace(changed("kafka", **{"sasl.mechanism": "PLAIN"}), login="plain", password="plain-secret")
    assert topics(plain).size_bytes("encrypted.log") == 0
    refused = {
        "certificate verify failed": changed("kafka", **{"ssl.ca.location": str(other.ca)}),
        "certificate": replace(changed("kafka"), host="127.0.0.1"),
        "Authentication failed": replace(changed("kafka"), password="wrong"),
    }
    for text, kafka in refused.items():
        said = wait_until(partial(refusal, kafka), timeout_s=60, what=f"a refusal that says: {text}")
        assert said is not None
        assert text in said.message
        assert "connection `kafka`" in said.hint, text
    found = KAFKA.examined(resolve("kafka"))
    assert found.product.startswith("Kafka, cluster encrypted-00000000000w, brokers: 1, topics that this login sees: ")
    assert found.encryption.startswith("encrypted, logged in by SCRAM-SHA-256; ")
    with pytest.raises(ConfigError, match="Authentication failed"):
        KAFKA.examined(replace(changed("kafka"), password="wrong again"))
    with pytest.raises(ConfigError, match="refused the login"):
        broker_asked_for_a_size(replace(changed("kafka"), password="wrong"))
    without_certificate = changed("kafka", **{"ssl.certificate.location": "", "ssl.key.location": ""})
    with pytest.raises((ConfigError, TransientError)):
        topics(without_certificate, timeout_s=0.5).topic_id("encrypted.log")
    with pytest.raises(TransientError) as said_of_clear:
        topics(replace(resolve("kafka"), extra={}, login=""), timeout_s=0.5).topic_id("encrypted.log")
    assert "security.protocol" in said_of_clear.value.hint


def broker_asked_for_a_size(kafka: Connection) -> int:
    from seamline.adapters.kafka.log_dirs import partition_bytes

    return partition_bytes(kafka.host, kafka.port, "encrypted.log", settings=client_settings(kafka))


@pytest.fixture(scope="module")
def worker(
    servers: Encrypted, stack: RunningStack, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ConnectWorker]:
    """Connect's connection names no secrets file yet that Seamline could write: its own login alone is in it."""
    folder = tmp_path_factory.mktemp("connect")
    file = folder / "secrets.properties"
    kafka = resolve("kafka")
    hand_over(file, kafka=kafka)
    security = java_client_settings(kafka, secrets_file=str(file))
    with connect_worker(stack.settings, kafka, name="encrypted", folder=folder, security=security) as one:
        servers.secrets.put(connect=connect_entry(one, here=True))
        yield one


def connect_entry(worker: ConnectWorker, *, here: bool) -> dict[str, Any]:
    file = str(worker.secrets_file)
    extra = {"secrets_file": file, **({"secrets_file_here": file} if here else {})}
    return {"conn_type": "http", "host": "127.0.0.1", "port": worker.port, "extra": extra}


@pytest.fixture
def bank(servers: Encrypted, worker: ConnectWorker) -> Iterator[Captured]:
    client = ConnectClient(worker.connection)
    with captured("encrypted_bank", client=client) as one, postgres_database("encrypted_warehouse") as warehouse:
        for connection_id in (WAREHOUSE.connection, WAREHOUSE.writer, "seamline_db"):
            login = {"seamline_db": WAREHOUSE.connection}.get(connection_id, connection_id)
            known = resolve(login)
            place = {"conn_type": "postgres", "host": known.host, "port": known.port, "schema": warehouse.database}
            entry = {**place, "login": known.login, "password": known.password, "extra": dict(known.extra)}
            servers.secrets.put(**{connection_id: entry})
        migrate.upgrade()
        one.plan = replace(one.with_tables(*TABLES), destinations=(WAREHOUSE,))
        yield one


def ensure(bank: Captured) -> None:
    """As an onboarding does."""
    plan = bank.plan
    bank.grant(plan)
    ensure_capture(
        plan,
        registry=bank.registry,
        connect=open_capture(plan.source),
        topics=open_topics(plan.source),
        source=bank.source,
        open_log=bank.open_log,
    )


class Attempts:
    """A stream as its host runs it: another attempt after each that may help, each as the code of a Spark task."""

    def __init__(self, plan: SyncPlan) -> None:
        self.ends: list[str] = []
        self._plan = plan
        self._stream = StreamId(plan.sync, WAREHOUSE.name)
        self._thread = threading.Thread(target=self._run)

    @contextmanager
    def running(self) -> Iterator["Attempts"]:
        with closing(PlatformStreamDirector(Database())) as director:
            director.want(self._stream, plan_json=plan_to_json(self._plan))
            self._thread.start()
            try:
                yield self
            finally:
                director.unwant(self._stream)
                self._thread.join(timeout=60)
        assert not self._thread.is_alive()
        assert self.ends[-1] == Outcome.STOPPED

    def _run(self) -> None:
        task = StreamTask(self._plan.sync, WAREHOUSE.name, plan_to_json(self._plan), host="")
        while True:
            outcome, error, _ = run_one(task)
            self.ends.append(error or outcome)
            if outcome != Outcome.TRANSIENT:
                return


class NoAlarms:
    """Whoever receives them has tests of its own."""

    def raise_alarm(self, kind: str, subject: str, message: str) -> None: ...

    def end_alarm(self, kind: str, subject: str) -> None: ...


def watched(plan: SyncPlan) -> SourceWatchThread:
    watch = SourceWatch(
        plan.source,
        open_source=lambda: registry.source(plan),
        open_probe=lambda: registry.capture_probe(plan),
        alarms=NoAlarms(),
        rhythm=Rhythm(heartbeat_s=1, status_s=1, size_s=5),
    )
    return SourceWatchThread(watch, name=plan.source.name, every_s=0.2)


def test_a_capture_and_its_stream_run_encrypted_from_end_to_end_and_outlive_rotated_logins(
    servers: Encrypted, bank: Captured, worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    # MariaDB's connector does not notice that its session was ended: the watch does, here by a shorter silence.
    monkeypatch.setattr(connect_capture, "_SILENT_AFTER_S", 5.0)
    bank.execute("INSERT INTO account SELECT seq, seq, 'before' FROM seq_1_to_500", "INSERT INTO audit VALUES (1, 'b')")
    # A connection that is new: Connect's secrets file knows nothing of it, and nobody writes it from here.
    servers.secrets.put(connect=connect_entry(worker, here=False))
    certificate = servers.with_certificate()
    for extra, text in (({"sslmode": "require"}, r"\$\{file:"), (certificate, "trustStore")):
        servers.secrets.change("core_bank_capture", extra=extra)
        with pytest.raises(ConfigError, match=text) as unknown:
            ensure(bank)
        assert "secrets_file_here" in unknown.value.hint, text
    servers.secrets.put(connect=connect_entry(worker, here=True))
    servers.secrets.change("core_bank_capture", extra={**certificate, "host_for_connect": "127.0.0.1"})
    with pytest.raises(SeamlineError) as refused:
        ensure(bank)
    assert "sslrootcert" in refused.value.hint, refused.value
    servers.secrets.change("core_bank_capture", extra=certificate)
    ensure(bank)

    run = run_of(bank, TABLES)
    run.result["snapshot"] = take_snapshot(run, tools_of(bank, run, Records()))
    with closing(postgres_sink(run.plan, WAREHOUSE)) as sink:
        publish(run, WAREHOUSE.name, sink=sink)
    assert applied() == 500

    with closing(watched(run.plan)), Attempts(run.plan).running() as attempts:
        bank.execute("INSERT INTO account VALUES (501, 1, 'streamed')")
        wait_until(lambda: applied() == 501, timeout_s=60, what="a change in the destination")

        rotate_writer(servers, attempts)
        bank.execute("INSERT INTO account VALUES (502, 1, 'after the first rotation')")
        wait_until(lambda: applied() == 502, timeout_s=60, what="a change under the new password of the destination")

        rotate_capture(servers)
        bank.execute("INSERT INTO account VALUES (503, 1, 'after the second rotation')")
        wait_until(lambda: applied() == 503, timeout_s=90, what="a change under the new password of the capture")
    config = str(bank.client.config(bank.connector.name))
    assert "rotated" not in config and "kafka-secret" not in config
    assert "PRIVATE KEY" not in config + worker.log()
    assert "rotated" not in worker.log() and "kafka-secret" not in worker.log()


def applied() -> int:
    with postgres(resolve(WAREHOUSE.connection)) as session:
        row = session.execute("SELECT count(*) FROM bank.account").fetchone()
    return int(row[0]) if row else 0


def rotate_writer(servers: Encrypted, attempts: Attempts) -> None:
    """The worst order: sessions end before the secret store has the new password."""
    writer = resolve(WAREHOUSE.writer)
    servers.postgres.ask(
        f"ALTER ROLE {writer.login} PASSWORD 'rotated-1'",
        f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '{writer.login}'",
    )
    wait_until(
        lambda: any("refused" in end or "refuses" in end for end in attempts.ends), timeout_s=60, what="a refusal"
    )
    servers.secrets.change(WAREHOUSE.writer, password="rotated-1")


def rotate_capture(servers: Encrypted) -> None:
    """The order of the book: the sessions end last."""
    login = resolve("core_bank_capture").login
    servers.mariadb.ask(f"ALTER USER '{login}'@'%' IDENTIFIED BY 'rotated-2' REQUIRE X509")
    servers.secrets.change("core_bank_capture", password="rotated-2")
    for (number,) in servers.mariadb.ask(f"SELECT id FROM information_schema.processlist WHERE user = '{login}'"):
        servers.mariadb.ask(f"KILL {number}")


def test_a_postgresql_source_is_captured_with_certificate_and_only_under_the_name_in_the_servers(
    servers: Encrypted, worker: ConnectWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with captured_postgres("encrypted_source", client=ConnectClient(worker.connection)) as one:
        capture, root = one.source_plan.capture, one.root
        monkeypatch.delenv(f"SEAMLINE_CONNECTION_{capture.upper()}")
        place = {"conn_type": "postgres", "host": root.host, "port": root.port, "schema": root.database}
        login = {"login": WITH_CERTIFICATE, "password": resolve("core_bank_capture").password}
        extra = servers.with_certificate()
        servers.secrets.put(**{capture: {**place, **login, "extra": {**extra, "host_for_connect": "127.0.0.1"}}})
        with pytest.raises(SeamlineError) as refused:
            ensure(one)
        assert "127.0.0.1" in refused.value.message
        assert "sslrootcert" in refused.value.hint
        servers.secrets.change(capture, extra=extra)
        ensure(one)
        one.execute("INSERT INTO account VALUES (1, 1, 'encrypted')")
        assert replay(one, committed_marker(one)).holds("account") == one.rows("account")


def test_topics_are_written_and_read_with_sasl_by_the_broker_of_a_list_that_answers(
    servers: Encrypted, worker: ConnectWorker
) -> None:
    """A destination by SCRAM, a source that reads its topics by PLAIN; the first broker of both lists is away."""
    broker = resolve("kafka")
    extra = {**broker.extra, "bootstrap.servers": f"localhost:1,localhost:{broker.port}"}
    feed = {"conn_type": "kafka", "login": "seamline", "password": "kafka-secret", "extra": extra}
    theirs = {**feed, "login": "plain", "password": "plain-secret", "extra": {**extra, "sasl.mechanism": "PLAIN"}}
    servers.secrets.put(connect=connect_entry(worker, here=True), feed=feed, their_kafka=theirs)
    with closing(KafkaWorld((ACCOUNT,), connection="feed", partitions=2)) as world:
        assert [one for one in KIND.problems(world.plan, world.destination) if one.is_fatal] == []
        stream = published(world)
        stream.span(insert(ACCOUNT, **account(1)), insert(ACCOUNT, **account(2)))
        of_feed = {
            "table": "account",
            "topic": f"{world.declared.prefix}.account",
            "format": "json",
            "key": ["id"],
            "columns": [{"name": "id", "type": "integer"}, {"name": "name", "type": "varchar(40)"}],
        }
        client = ConnectClient(worker.connection)
        with captured_topics_of_others("encrypted_queue", [of_feed], connection="their_kafka", client=client) as queue:
            ensure(queue)
            stream.span(delete(ACCOUNT, **account(1)), insert(ACCOUNT, **account(3, "余额")))
            tables = queue.source.catalogue(("account",))
            with open_for_tasks(queue.source_plan, Wanted("one", 1, tables, 1), NoTasks()) as opened:
                (view,) = opened.views
                batches = list(view.typed_rows(tables[0], Segment("account")))
            found = sorted((row for batch in batches for row in batch.to_pylist()), key=lambda row: row["id"])
            assert found == [{"id": 2, "name": "a"}, {"id": 3, "name": "余额"}]
            assert "plain-secret" not in str(queue.client.config(queue.connector.name)) + worker.log()


def committed_marker(one: Captured) -> str:
    marker = Marker(id=f"last-{uuid.uuid4().hex}", kind="heartbeat")
    one.source.commit_marker(marker)
    return marker.id
