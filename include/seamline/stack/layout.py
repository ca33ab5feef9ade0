"""Where every file of the local stack lies, from the settings alone."""

import hashlib
import tempfile
from dataclasses import dataclass
from pathlib import Path

from seamline.settings import Settings

# sun_path holds 108 bytes, and Supervisor adds its pid to the name while it binds.
_SOCKET_PATH_MAX = 80
MARIADB_VERSION = "11.4.5"


@dataclass(frozen=True, slots=True)
class Layout:
    """Paths of one stack: what can be fetched again lies under `env`, what must be kept under `data`."""

    settings: Settings

    # What is fetched
    @property
    def venv_bin(self) -> Path:
        return self.settings.env / "venv" / "bin"

    @property
    def python(self) -> Path:
        return self.venv_bin / "python"

    @property
    def jars(self) -> Path:
        return self.settings.env / "jars"

    @property
    def hudi(self) -> Path:
        """An environment of its own, with Hudi and its Spark, where somebody has asked for it."""
        return self.settings.env / "hudi"

    @property
    def docs(self) -> Path:
        """An environment of its own, with what makes a site of the documents, and that site."""
        return self.settings.env / "docs"

    @property
    def java_wrapper_home(self) -> Path:
        return self.settings.env / "java"

    @property
    def connect_plugins(self) -> Path:
        return self.settings.env / "connect-plugins"

    @property
    def own_connectors(self) -> Path:
        """What is compiled from connect/: a folder with a jar for each plugin that it extends, which holds a copy."""
        return self.settings.env / "own-connectors"

    @property
    def mariadb_server(self) -> Path:
        return self.settings.env / f"mariadb-{MARIADB_VERSION}"

    # What is kept
    @property
    def data(self) -> Path:
        return self.settings.data

    @property
    def secrets(self) -> Path:
        return self.data / "secrets.json"

    @property
    def logs(self) -> Path:
        return self.data / "logs"

    @property
    def supervisor(self) -> Path:
        return self.data / "supervisor"

    @property
    def postgres(self) -> Path:
        return self.data / "postgres"

    @property
    def mariadb(self) -> Path:
        return self.data / "mariadb"

    @property
    def lake(self) -> Path:
        """The warehouse of Iceberg tables, where somebody has asked for them."""
        return self.data / "lake"

    @property
    def kafka(self) -> Path:
        return self.data / "kafka"

    @property
    def connect(self) -> Path:
        return self.data / "connect"

    @property
    def airflow(self) -> Path:
        return self.data / "airflow"

    @property
    def airflow_passwords(self) -> Path:
        return self.airflow / "passwords.json"

    @property
    def sockets(self) -> Path:
        """A folder whose path is short enough for socket files."""
        inside = self.data / "run"
        if len(str(inside)) <= _SOCKET_PATH_MAX:
            return inside
        name = hashlib.sha256(str(self.data).encode()).hexdigest()[:12]
        return Path(tempfile.gettempdir()) / f"seamline-{name}"

    @property
    def supervisor_socket(self) -> Path:
        return self.sockets / "supervisor.sock"

    @property
    def supervisor_pid(self) -> Path:
        return self.supervisor / "supervisord.pid"

    def log_of(self, program: str) -> Path:
        return self.logs / f"{program}.log"
