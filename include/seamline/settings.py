"""Where this checkout keeps its environment and data. The only reader of the process environment.

| variable | meaning | default |
|---|---|---|
| SEAMLINE_HOME | folder of `env/` (packages, jars) and `data/` | `.seamline` of the checkout |
| SEAMLINE_DATA | servers' data, logs, generated secrets | `data` of SEAMLINE_HOME |
| SEAMLINE_PORT_BASE | first port; every server has a fixed distance from it | 21000 |
| SEAMLINE_CONNECTIONS | the connections file | `connections.json` of SEAMLINE_DATA |
| SEAMLINE_DECLARATIONS | folder of sources, destinations, syncs, expectations | `include` of the checkout |
| SEAMLINE_CONNECTION_<ID> | one connection as a URI or Airflow's JSON; wins over the file | |
| SEAMLINE_CONNECTIONS_FROM_AIRFLOW | ids, by commas: Airflow's tasks write what Airflow knows of them into the file | |
| SEAMLINE_POOLS | 1: Airflow has the pools of `plan.pools`; else tasks use its default pool | |
| SEAMLINE_AUDIT_ANCHORS | folder of the files that hold heads of the log of acts | `audit` of SEAMLINE_DATA |
| SEAMLINE_SIGNING_KEY | file of the Ed25519 key (PEM) that signs verdicts in `export.json`; without it nothing does | |
| SEAMLINE_READY_FILES | folder of the files by which sources say that their day is closed | `ready` of SEAMLINE_DATA |
| SEAMLINE_JDBC_DRIVERS | folder of the JDBC drivers that people place | `jdbc-drivers` of SEAMLINE_HOME |
| SEAMLINE_SERVERS | `here`: Supervisor runs them on this machine; `elsewhere`: as in docker-compose.yml | `here` |
| SEAMLINE_DEBUG | 1: show the traceback of an error | |
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from seamline.domain.errors import ConfigError

PORT_BASE_DEFAULT = 21000
_CONNECTION_PREFIX = "SEAMLINE_CONNECTION_"
# include/seamline/settings.py of an editable checkout.
_CHECKOUT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Ports:
    """The ports of one local stack, all at a fixed distance from the base."""

    base: int

    @property
    def mariadb(self) -> int:
        return self.base + 6

    @property
    def postgres(self) -> int:
        return self.base + 32

    @property
    def airflow(self) -> int:
        return self.base + 80

    @property
    def connect(self) -> int:
        return self.base + 83

    @property
    def kafka(self) -> int:
        return self.base + 92

    @property
    def kafka_controller(self) -> int:
        return self.base + 93


@dataclass(frozen=True, slots=True)
class Settings:
    """Places and ports of one stack. Two checkouts, or two data folders, never share any of them."""

    root: Path
    home: Path
    data: Path
    ports: Ports
    connections: Path
    declarations: Path
    audit_anchors: Path
    ready_files: Path
    jdbc_drivers: Path
    audit_topic: str = ""
    signing_key: Path | None = None
    is_debug: bool = False
    has_pools: bool = False
    are_servers_here: bool = True
    connection_uris: Mapping[str, str] = field(default_factory=dict, repr=False)
    from_airflow: tuple[str, ...] = ()

    @property
    def env(self) -> Path:
        """Packages, jars and unpacked servers: can be made again at any time."""
        return self.home / "env"


def load(environment: Mapping[str, str] | None = None) -> Settings:
    """Read the settings, from `environment` where it is given, else from this process."""
    values = os.environ if environment is None else environment
    home = _path(values, "SEAMLINE_HOME", _CHECKOUT / ".seamline")
    data = _path(values, "SEAMLINE_DATA", home / "data")
    return Settings(
        root=_CHECKOUT,
        home=home,
        data=data,
        ports=Ports(_port_base(values.get("SEAMLINE_PORT_BASE", ""))),
        connections=_path(values, "SEAMLINE_CONNECTIONS", data / "connections.json"),
        declarations=_path(values, "SEAMLINE_DECLARATIONS", _CHECKOUT / "include"),
        audit_anchors=_path(values, "SEAMLINE_AUDIT_ANCHORS", data / "audit"),
        ready_files=_path(values, "SEAMLINE_READY_FILES", data / "ready"),
        jdbc_drivers=_path(values, "SEAMLINE_JDBC_DRIVERS", home / "jdbc-drivers"),
        audit_topic=values.get("SEAMLINE_AUDIT_TOPIC", "").strip(),
        signing_key=Path(key).absolute() if (key := values.get("SEAMLINE_SIGNING_KEY", "").strip()) else None,
        is_debug=values.get("SEAMLINE_DEBUG", "") not in ("", "0"),
        has_pools=values.get("SEAMLINE_POOLS", "") not in ("", "0"),
        are_servers_here=_are_servers_here(values.get("SEAMLINE_SERVERS", "")),
        connection_uris={
            name.removeprefix(_CONNECTION_PREFIX).lower(): value
            for name, value in values.items()
            if name.startswith(_CONNECTION_PREFIX) and value
        },
        from_airflow=_ids(values.get("SEAMLINE_CONNECTIONS_FROM_AIRFLOW", "")),
    )


def process_environment() -> dict[str, str]:
    """A copy of this process's environment, for programs that are started from here."""
    return dict(os.environ)


def search_path() -> str:
    """Where programs are looked for."""
    return os.environ.get("PATH", os.defpath)


def user_cache() -> Path | None:
    """The folder of what can be made again, which all checkouts of this user have in common; None where there is none.

    As the XDG Base Directory Specification has it: a relative path does not count.
    """
    given, home = (os.environ.get(name, "") for name in ("XDG_CACHE_HOME", "HOME"))
    return next((folder for folder in (Path(given), Path(home) / ".cache") if folder.is_absolute()), None)


def as_environment(settings: Settings) -> dict[str, str]:
    """The variables that make another process load these same settings."""
    return {
        "SEAMLINE_HOME": str(settings.home),
        "SEAMLINE_DATA": str(settings.data),
        "SEAMLINE_PORT_BASE": str(settings.ports.base),
        "SEAMLINE_CONNECTIONS": str(settings.connections),
        "SEAMLINE_DECLARATIONS": str(settings.declarations),
        "SEAMLINE_AUDIT_ANCHORS": str(settings.audit_anchors),
        "SEAMLINE_READY_FILES": str(settings.ready_files),
        "SEAMLINE_AUDIT_TOPIC": settings.audit_topic,
        "SEAMLINE_SIGNING_KEY": str(settings.signing_key or ""),
    }


def _ids(given: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in given.split(",") if one.strip())


def _path(values: Mapping[str, str], name: str, default: Path) -> Path:
    given = values.get(name, "")
    return Path(given).expanduser().resolve() if given else default


def _are_servers_here(given: str) -> bool:
    if given not in ("", "here", "elsewhere"):
        raise ConfigError(
            f"SEAMLINE_SERVERS must be `here` or `elsewhere`, got {given!r}",
            hint="leave it out: only the images of docker-compose.yml set it",
        )
    return given != "elsewhere"


def _port_base(given: str) -> int:
    if not given:
        return PORT_BASE_DEFAULT
    if not given.isdecimal() or not 1024 <= int(given) <= 65000:
        raise ConfigError(
            f"SEAMLINE_PORT_BASE must be a number from 1024 to 65000, got {given!r}",
            hint="leave it out for 21000, or choose another multiple of 100 that is free",
        )
    return int(given)
