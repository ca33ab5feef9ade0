"""A REST catalogue as its connection leads there: address, login, certificates."""

from typing import Any

from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import ConfigError
from seamline.plan.model import DestinationPlan
from seamline.ports import Failpoints
from seamline.sinks.iceberg.io import warehouse_io, warehouse_root
from seamline.sinks.iceberg.options import options_of
from seamline.sinks.iceberg.rest_client import NEEDED_CALLS, RestClient
from seamline.sinks.iceberg.rest_ledger import NAMESPACE
from seamline.sinks.iceberg.rest_store import RestStore

_KIND = "iceberg"
_OWN_TOKENS = "v1/oauth/tokens"


def open_client(destination: DestinationPlan) -> RestClient:
    """ConfigError: its connection leads to no REST catalogue."""
    connection = resolve(destination.connection)
    if connection.kind != _KIND:
        raise ConfigError(
            f"Connection `{connection.connection_id}` is of kind {connection.kind}, and a REST catalogue is reached by"
            f" one of kind {_KIND}",
            hint="write its address there as host, or declare `catalog_type: jdbc`",
        )
    return RestClient(options_of(destination).catalog, properties_of(connection))


def open_store(destination: DestinationPlan, *, failpoints: Failpoints | None = None) -> RestStore:
    options = options_of(destination)
    root, io = warehouse_root(options), warehouse_io(options)
    return RestStore(destination, open_client(destination), root, io, failpoints=failpoints)


def rights(destination: DestinationPlan) -> str:
    """What its server must let the client of its connection do, for people: no statement of a standard says it."""
    names = f"{NAMESPACE}, {destination.namespace} and {destination.incremental_namespace('*')}"
    lines = [
        "-- A REST catalogue is no database: its server has its own way to give rights. The client of connection",
        f"-- `{destination.connection}` must be allowed these calls in the namespaces {names},",
        "-- and the server to read and write the warehouse:",
        *(f"--   {call}" for call in NEEDED_CALLS),
    ]
    return "\n".join([*lines, ""])


def properties_of(connection: Connection) -> dict[str, Any]:
    """What pyiceberg's client calls them. A login and a password are OAuth2's client id and secret; a password alone is
    a token. ConfigError: they contradict each other."""
    uri, extra = _address(connection), connection.extra
    found: dict[str, Any] = {name: str(extra[name]) for name in ("warehouse", "prefix", "scope") if extra.get(name)}
    if connection.login and not connection.password:
        raise ConfigError(
            f"Connection `{connection.connection_id}` has a login and no password",
            hint="write the client's id and its secret, or a token alone as the password",
        )
    if connection.password:
        found["oauth2-server-uri"] = str(extra.get("oauth2_server_uri") or f"{uri}/{_OWN_TOKENS}")
    if connection.login:
        found["credential"] = f"{connection.login}:{connection.password}"
    elif connection.password:
        found["token"] = connection.password
    return {**found, "uri": uri, "ssl": _certificates(connection, uri)}


def _address(connection: Connection) -> str:
    """Without a slash at its end. Airflow's own connection of this kind has it whole as its host."""
    if "://" in connection.host:
        return connection.host.rstrip("/")
    port = f":{connection.port}" if connection.port else ""
    scheme = connection.extra.get("scheme", "https")
    return f"{scheme}://{connection.host}{port}/{connection.database}".rstrip("/")


def _certificates(connection: Connection, uri: str) -> dict[str, Any]:
    extra = connection.extra
    found: dict[str, Any] = {"cabundle": extra["sslrootcert"]} if extra.get("sslrootcert") else {}
    if extra.get("sslcert"):
        found["client"] = {"cert": extra["sslcert"], "key": extra["sslkey"]}
    if found and not uri.startswith("https://"):
        raise ConfigError(
            f"Connection `{connection.connection_id}` names certificates, and {uri} is in the clear",
            hint="write the address with https",
        )
    return found
