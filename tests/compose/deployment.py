"""docker-compose.yml, unchanged, as one project: what its operator does to it."""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seamline import settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.settings import Ports
from seamline.stack.java import SYSTEM_CERTIFICATES
from tests.compose.engine import Engine

PROJECT = "seamline-test"
BUILT_WITHIN_S = 1500
UP_WITHIN_S = 600


@dataclass(frozen=True)
class Deployment:
    engine: Engine
    checkout: Path
    ports: Ports

    @property
    def env_file(self) -> Path:
        return self.engine.folder / "env"

    def configure(self) -> None:
        """What deploy/new-env.sh writes, with this session's ports."""
        place = self.engine.folder / "checkout"
        (place / "deploy").mkdir(parents=True)
        for name in (".env.example", "deploy/new-env.sh"):
            (place / name).write_bytes((self.checkout / name).read_bytes())
        subprocess.run(["sh", "deploy/new-env.sh"], cwd=place, check=True, capture_output=True)
        ports = {
            "SEAMLINE_PORT_POSTGRES": self.ports.postgres,
            "SEAMLINE_PORT_MARIADB": self.ports.mariadb,
            "SEAMLINE_PORT_KAFKA": self.ports.kafka,
            "SEAMLINE_PORT_CONNECT": self.ports.connect,
            "SEAMLINE_PORT_AIRFLOW": self.ports.airflow,
        }
        kept = [line for line in (place / ".env").read_text().splitlines() if line.partition("=")[0] not in ports]
        self.env_file.write_text("\n".join([*kept, *(f"{name}={port}" for name, port in ports.items()), ""]))

    def put_secret(self, name: str, value: str) -> None:
        """Another value in `.env`; nothing is started again for it."""
        lines = self.env_file.read_text().splitlines()
        changed = [f"{name}={value}" if line.startswith(f"{name}=") else line for line in lines]
        self.env_file.write_text("\n".join([*changed, ""]))

    def compose(self, *words: str, timeout_s: float = UP_WITHIN_S) -> str:
        """What the command printed; fails with it."""
        answer = self.ask(*words, timeout_s=timeout_s)
        said = (answer.stdout + answer.stderr).decode(errors="replace")
        assert answer.returncode == 0, f"docker compose {' '.join(words)}:\n{said[-6000:]}"
        return answer.stdout.decode(errors="replace")

    def ask(self, *words: str, timeout_s: float = UP_WITHIN_S) -> "subprocess.CompletedProcess[bytes]":
        file = str(self.checkout / "docker-compose.yml")
        options = ["--project-name", PROJECT, "--env-file", str(self.env_file), "--file", file, "--progress", "plain"]
        return self.engine.docker("compose", *options, *words, timeout_s=timeout_s, **_certificate())

    def build(self) -> None:
        self.compose("build", timeout_s=BUILT_WITHIN_S)

    def up(self) -> None:
        self.compose("up", "--wait", "--wait-timeout", str(UP_WITHIN_S - 30))

    def states(self) -> dict[str, dict[str, Any]]:
        """Service → its container, as `docker inspect` shows it."""
        ids = self.compose("ps", "--all", "--quiet").split()
        shown = json.loads(self.engine.docker("inspect", *ids).stdout)
        return {one["Config"]["Labels"]["com.docker.compose.service"]: one for one in shown}

    def kill(self, services: Sequence[str]) -> None:
        """SIGKILL to each container's first process, all within a moment: as a crash, which Docker mends. What
        `docker kill` ends stays down."""
        pids = {name: int(state["State"]["Pid"]) for name, state in self.states().items()}
        for name in services:
            os.kill(pids[name], signal.SIGKILL)

    def are_well(self) -> bool:
        """All that should run does, and its health check says so."""
        states = self.states()
        running = [one["State"] for name, one in states.items() if name not in ("init", "secrets")]
        return all(state["Running"] and state["Health"]["Status"] == "healthy" for state in running)

    def airflow(self) -> AirflowRest:
        """Signed in as `operator`, by the password that only the project's own containers can read."""
        kept = self.compose("exec", "-T", "airflow-api", "cat", "/var/lib/seamline/airflow/passwords.json")
        return AirflowRest(f"http://127.0.0.1:{self.ports.airflow}", "operator", json.loads(kept)["operator"])

    def take_down(self) -> None:
        if self.env_file.exists():
            self.ask("down", "--volumes", "--timeout", "10")


def _certificate() -> dict[str, str]:
    """What this machine trusts, so that a build behind an intercepting proxy works as its page says."""
    named = settings.process_environment().get("SSL_CERT_FILE", "")
    bundle = next((path for path in (Path(named), *SYSTEM_CERTIFICATES) if path.is_file()), None)
    return {"SEAMLINE_BUILD_CA": str(bundle)} if bundle else {}
