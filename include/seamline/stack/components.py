"""The parts of the stack: one description for the local stack, `doctor`, `ps` and the check of docker-compose.yml."""

from collections.abc import Iterable
from dataclasses import dataclass

from seamline.domain.errors import ConfigError
from seamline.settings import Ports


@dataclass(frozen=True, slots=True)
class Program:
    """One process that Supervisor keeps alive."""

    name: str
    title: str
    stop_signal: str = "TERM"
    stop_wait_s: int = 10
    # PostgreSQL ends its own children in order; a signal to all of them at once would cancel that.
    stops_group: bool = True
    # It reads declarations and connections: settings that a later `up` may change while the stack runs.
    reads_declarations: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """A part that is started and asked for readiness as one. `needs` come up before it and stop after it."""

    name: str
    title: str
    programs: tuple[Program, ...]
    # What runs it in containers.
    image: str
    needs: tuple[str, ...] = ()
    ready_within_s: int = 240
    cure: str = ""
    # Not part of a plain `up`: started by whoever names it.
    is_on_request: bool = False

    def ports(self, ports: Ports) -> dict[str, int]:
        """What it listens on, by the program that does."""
        return {
            "postgres": {"postgres": ports.postgres},
            "mariadb": {"mariadb": ports.mariadb},
            "kafka": {"kafka": ports.kafka, "kafka controller": ports.kafka_controller},
            "connect": {"connect": ports.connect},
            "airflow": {"airflow": ports.airflow},
        }.get(self.name, {})


COMPONENTS: tuple[Component, ...] = (
    Component(
        name="postgres",
        image="postgres:18",
        title="PostgreSQL (warehouse, platform database, Airflow's own)",
        programs=(Program("postgres", "PostgreSQL server", stop_signal="INT", stop_wait_s=30, stops_group=False),),
        cure="if its data is not worth keeping: ./seamline down, remove the folder `postgres` of the data folder, up",
    ),
    Component(
        name="mariadb",
        image="mariadb:11.4",
        title="MariaDB (the bank)",
        programs=(Program("mariadb", "MariaDB server", stop_wait_s=30),),
        cure="if its data is not worth keeping: ./seamline down, remove the folder `mariadb` of the data folder, up",
    ),
    Component(
        name="kafka",
        image="apache/kafka:4.3.1",
        title="Kafka broker",
        programs=(Program("kafka", "Kafka broker and controller", stop_wait_s=30),),
        cure="./seamline doctor checks Java and memory; the log says more",
    ),
    Component(
        name="connect",
        image="seamline/connect:0.2.0",
        title="Kafka Connect with Debezium",
        # Longer than its tasks have to end: one that is killed leaves its Kafka transaction open.
        programs=(Program("connect", "Connect worker", stop_wait_s=45),),
        needs=("kafka",),
        # A worker that died inside a Kafka transaction is waited for by the next one.
        ready_within_s=240,
        cure="./seamline doctor checks Java and the plugins; the log says more",
    ),
    Component(
        name="airflow",
        image="seamline/airflow:0.2.0",
        title="Airflow",
        programs=(
            Program("airflow-api", "Airflow API server and UI", reads_declarations=True),
            Program("airflow-scheduler", "Airflow scheduler", reads_declarations=True),
            Program("airflow-dags", "Airflow DAG processor", reads_declarations=True),
            Program("airflow-triggerer", "Airflow triggerer", reads_declarations=True),
        ),
        needs=("postgres",),
        ready_within_s=600,
        cure="./seamline doctor checks the environment; ./seamline logs airflow-api (-scheduler, -dags, -triggerer)",
    ),
    Component(
        name="stream_host",
        image="seamline/airflow:0.2.0",
        title="Stream host (Spark)",
        programs=(Program("stream_host", "Spark driver of the streams", stop_wait_s=20, reads_declarations=True),),
        needs=("postgres", "kafka"),
        cure="it is started again by itself; the log says more",
    ),
    Component(
        name="bank_writers",
        image="seamline/airflow:0.2.0",
        title="The demo bank's writers",
        programs=(Program("bank_writers", "Writers of the demo bank", reads_declarations=True),),
        needs=("mariadb",),
        cure="the bank must be filled first: ./seamline demo",
        is_on_request=True,
    ),
)

PROGRAMS: dict[str, Program] = {program.name: program for part in COMPONENTS for program in part.programs}
COMPONENT_OF: dict[str, Component] = {program.name: part for part in COMPONENTS for program in part.programs}
NAMES: tuple[str, ...] = tuple(part.name for part in COMPONENTS)


def choose(*, only: Iterable[str] = (), without: Iterable[str] = ()) -> tuple[Component, ...]:
    """The components to act on, in the order in which they can start. `only` brings what its members need."""
    only, without = tuple(only), tuple(without)
    for name in (*only, *without):
        if name not in NAMES:
            raise ConfigError(f"There is no component `{name}`", hint=f"known are {', '.join(NAMES)}")
    wanted = set(only or (part.name for part in COMPONENTS if not part.is_on_request))
    for part in reversed(COMPONENTS):
        if part.name in wanted:
            wanted.update(part.needs)
    chosen = tuple(part for part in COMPONENTS if part.name in wanted and part.name not in without)
    for part in chosen:
        for need in part.needs:
            if need in without:
                raise ConfigError(
                    f"{part.name} needs {need}", hint=f"leave {part.name} out as well: --without {need},{part.name}"
                )
    return chosen
