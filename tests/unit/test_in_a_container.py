"""The command line inside an image of docker-compose.yml, where the servers are other containers'."""

from pathlib import Path

import pytest

from seamline import settings
from seamline.cli import seen
from seamline.cli.main import OF_SERVERS_HERE, main
from seamline.stack import checks, container_health
from seamline.stack.checks import Level
from seamline.stack.layout import Layout


@pytest.fixture(autouse=True)
def in_a_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SEAMLINE_SERVERS", "elsewhere")
    monkeypatch.setenv("SEAMLINE_DATA", str(tmp_path))


@pytest.mark.parametrize("name", sorted(OF_SERVERS_HERE))
def test_a_command_about_servers_of_this_machine_says_where_they_are(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([name]) == 2
    said = capsys.readouterr().err
    assert "run in containers of their own" in said
    assert "docker compose up" in said


def test_status_does_not_begin_with_a_local_stack_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = Layout(settings.load())
    assert seen.processes(layout) == "the servers run in containers of their own (docker compose ps)"
    monkeypatch.delenv("SEAMLINE_SERVERS")
    assert seen.processes(Layout(settings.load())) == "the local stack is down (./seamline up)"


def test_the_doctor_asks_the_other_containers_and_only_after_jars_that_an_image_has(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"Kafka": "", "Kafka Connect": "no worker answers at http://connect:8083"}
    monkeypatch.setattr(container_health, "servers", lambda: iter(found.items()))
    findings = list(checks.findings(Layout(settings.load())))
    said = {one.what: one for one in findings}
    assert said["Kafka answers"].level is Level.OK
    broken = said["Kafka Connect: no worker answers at http://connect:8083"]
    assert (broken.level, "docker compose" in broken.cure) == (Level.WRONG, True)
    # Those of Spark, here or missing here: an image has no others.
    jars = [one.what for one in findings if "jars.lock" in one.what]
    assert jars and all(what.startswith(("6 jars are", "spark/")) for what in jars)
    assert not [one for one in findings if "the stack is not running" in one.what or "ports" in one.what]


def test_a_server_that_cannot_be_asked_is_never_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__CORE__EXECUTION_API_SERVER_URL", "http://127.0.0.1:9/execution/")
    for name in ("SEAMLINE_DB", "KAFKA", "CONNECT"):
        monkeypatch.delenv(f"SEAMLINE_CONNECTION_{name}", raising=False)
    asked = dict(container_health.servers())
    assert len(asked) == 3 + len(container_health.AIRFLOW_PARTS)
    assert all(asked.values()), asked
    assert container_health.main(["scheduler"]) == 1
