"""What the `extra` of a connection may say, per kind, and what is refused because no client could honour it.

Checked whenever a connection is resolved: a name that is misspelt would be passed over, and the session would be in
the clear. Names and meanings of TLS are libpq's for every kind of server but Kafka, whose extra is librdkafka's own.
"""

import difflib
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from seamline.adapters.private_file import others_may_read
from seamline.domain.errors import ConfigError

TLS_NAMES = ("sslmode", "sslrootcert", "sslcert", "sslkey")
VERIFYING = ("verify-ca", "verify-full")
_ENCRYPTED = ("require", *VERIFYING)
# libpq's `allow` and `prefer` end in the clear where the server says so: no client of MariaDB has both.
_MODES = {
    "postgres": ("disable", "allow", "prefer", *_ENCRYPTED),
    "mysql": ("disable", *_ENCRYPTED),
    "redis": ("disable", *_ENCRYPTED),
    # No `require`: password and files would go to whoever answers.
    "ftp": ("disable", *VERIFYING),
}
# Where no CA is named, those of the system count: a partner's server may have its certificate of a public one. By it
# anybody gets a certificate, so the host name counts too.
_BY_THE_SYSTEM = (("ftp", "verify-full"),)
_DATABASE = (*TLS_NAMES, "host_for_connect", "port_for_connect")
# The file of a login's own key.
_OF_LOGIN = "key_file"
_CONNECT = ("secrets_file", "secrets_file_here", "kafka_servers", "group_id")
_KNOWN: dict[str, tuple[str, ...]] = {
    "postgres": _DATABASE,
    "mysql": _DATABASE,
    # `db`: the number of the database.
    "redis": (*TLS_NAMES, "db"),
    "http": _CONNECT,
    # Its service is asked without a login and in the clear.
    "hive_metastore": (),
    # Its host is ZooKeeper's, its login a name that is believed; `znode`: where HBase keeps its state there.
    "hbase": ("znode",),
    # Its host is the JDBC URL, which says all else.
    "jdbc": ("driver_class",),
    # The server's key, as `ssh-keyscan` prints it behind its name, and the file of the login's own.
    "sftp": ("host_key", _OF_LOGIN),
    "ftp": TLS_NAMES,
    # Its REST is asked in the clear, as the user that its login names.
    "webhdfs": (),
    "iceberg": (
        *("scheme", "warehouse", "prefix", "scope", "oauth2_server_uri"),
        *("sslrootcert", "sslcert", "sslkey"),
    ),
    "https": (*_CONNECT, "sslrootcert", "sslcert", "sslkey"),
}
# Of a connection to Kafka, and no setting of librdkafka's: where Connect's worker finds the brokers.
SERVERS, SERVERS_FOR_CONNECT = "bootstrap.servers", "servers_for_connect"
KAFKA_OWN = frozenset({SERVERS_FOR_CONNECT})
# The setting that lists servers, of the types of connections that may have more than one.
_LISTS_SERVERS = {"kafka": SERVERS}
# Java's clients need each port, which librdkafka would guess.
_SERVER = re.compile(r"(?:\[[0-9A-Fa-f:.]+\]|[^\s:,/]+):[0-9]{1,5}")
_NUMBERS = ("port_for_connect", "db")
_SCHEMES = ("http", "https")
_OF_AWS = ("region_name", "endpoint_url", "role_arn", "aws_session_token", "verify")
# What Airflow's and other clients call it.
_ELSEWHERE = {
    "ssl_mode": "write `sslmode`: disable, require, verify-ca or verify-full",
    "ssl": "write `sslmode`, `sslrootcert`, `sslcert` and `sslkey`",
    "ssl_ca": "write `sslrootcert`",
    "ssl_cert": "write `sslcert`",
    "ssl_key": "write `sslkey`",
}
_REFERENCE = "docs/reference/connections.md lists every setting"


def checked(connection_id: str, kind: str, extra: Mapping[str, Any], *, login: str = "") -> dict[str, Any]:
    """`extra` as it is used. ConfigError for what is unknown, contradicts itself, or names a file that is not there."""
    if kind in _RULES:
        fault, cure = _RULES[kind](extra, login)
    else:
        # Of another kind nothing would be checked, and what it says of TLS be passed over.
        fault, cure = f"there is no kind {kind}", _meant(kind, tuple(_RULES))
    if fault:
        raise ConfigError(f"Connection `{connection_id}`: {fault}", hint=f"{cure}; {_REFERENCE}")
    # librdkafka's word for the CAs of the system, which count where nothing is said. Other clients know files only.
    return {name: value for name, value in extra.items() if (name, value) != ("ssl.ca.location", "probe")}


def first_server(kind: str, extra: Mapping[str, Any]) -> Mapping[str, Any]:
    """`host` and `port` of the first server that `extra` lists, which Airflow's own connections of Kafka have no fields
    for; none of a connection of another kind."""
    host, _, port = str(extra.get(_LISTS_SERVERS.get(kind, ""), "")).partition(",")[0].strip().rpartition(":")
    return {"host": host, "port": port} if host and port.isdecimal() else {}


def has_web_address(kind: str) -> bool:
    """Whether it is reached by an address of the web: its `extra` says the scheme, which has a port of its own."""
    return "scheme" in _KNOWN.get(kind, ())


def _fault(kind: str, extra: Mapping[str, Any], _login: str) -> tuple[str, str]:
    for name in extra:
        if name not in _KNOWN[kind]:
            return f"`{name}` is no setting of a connection of kind {kind}", _meant(name, _KNOWN[kind])
    mode = str(extra.get("sslmode", ""))
    modes = _MODES.get(kind, ())
    if "sslmode" in extra and mode not in modes:
        return f"sslmode is {mode!r}", f"a connection of kind {kind} takes {', '.join(modes)}"
    if kind in _MODES and mode not in _ENCRYPTED and (idle := [name for name in TLS_NAMES[1:] if extra.get(name)]):
        return f"{idle[0]} has no meaning without TLS", "add sslmode: verify-full"
    if mode in VERIFYING and not extra.get("sslrootcert") and (kind, mode) not in _BY_THE_SYSTEM:
        return f"sslmode is {mode}, and nothing says by which CA", "name its PEM file in sslrootcert"
    if bool(extra.get("sslcert")) != bool(extra.get("sslkey")):
        return "a client certificate needs its key", "name both PEM files: sslcert and sslkey"
    if wrong := [name for name in _NUMBERS if not str(extra.get(name) or "0").isdecimal()]:
        return f"{wrong[0]} is {extra[wrong[0]]!r}", "write a number"
    return _file_fault({name: str(extra[name]) for name in (*TLS_NAMES[1:], _OF_LOGIN) if extra.get(name)})


def _meant(name: str, known: tuple[str, ...]) -> str:
    if name in _ELSEWHERE:
        return _ELSEWHERE[name]
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"known are {', '.join(known)}"


def _file_fault(named: Mapping[str, str]) -> tuple[str, str]:
    for name, place in named.items():
        if not os.access(place, os.R_OK):
            return f"{name} is {place}, which cannot be read here", "name a file that this process may read"
    keys = (named[name] for name in ("sslkey", "ssl.key.location", _OF_LOGIN) if name in named)
    if key := next((one for one in keys if others_may_read(Path(one))), ""):
        return f"the private key {key} can be read by others", f"chmod 600 {key}"
    return "", ""


def _kafka_fault(extra: Mapping[str, Any], login: str) -> tuple[str, str]:
    """Names are librdkafka's: it refuses those that it does not know. What it passes over is refused here."""
    for name in (SERVERS, SERVERS_FOR_CONNECT):
        wrong = [one for one in str(extra.get(name, "h:1")).split(",") if not _SERVER.fullmatch(one.strip())]
        if wrong:
            return f"{name} names {wrong[0].strip()!r}", "write host:port for each broker, with commas between them"
    protocol = str(extra.get("security.protocol", "plaintext")).lower()
    if not protocol.startswith("sasl") and (login or any(name.startswith("sasl.") for name in extra)):
        return f"it has a login, and security.protocol {protocol} sends none", "add security.protocol: SASL_SSL"
    if not protocol.endswith("ssl") and (idle := [name for name in extra if name.startswith("ssl.")]):
        return f"{idle[0]} has no meaning with security.protocol {protocol}", "add security.protocol: SSL, or SASL_SSL"
    places = ("ssl.ca.location", "ssl.certificate.location", "ssl.key.location")
    # `probe`: librdkafka looks for the CAs of the system.
    return _file_fault({name: str(extra[name]) for name in places if extra.get(name) not in (None, "", "probe")})


def _iceberg_fault(extra: Mapping[str, Any], login: str) -> tuple[str, str]:
    """`scheme` is that of the catalogue's address: TLS, unless it says otherwise."""
    scheme = str(extra.get("scheme", "https"))
    if scheme not in _SCHEMES:
        return f"scheme is {scheme!r}", "write http or https"
    if scheme == "http" and (idle := [name for name in TLS_NAMES[1:] if extra.get(name)]):
        return f"{idle[0]} has no meaning without TLS", "leave `scheme` out"
    return _fault("iceberg", extra, login)


def _aws_fault(extra: Mapping[str, Any], login: str) -> tuple[str, str]:
    """Names are Airflow's. `verify` is the PEM file of a CA: nobody goes without one."""
    for name in extra:
        if name not in _OF_AWS:
            return f"`{name}` is no setting of a connection of kind aws", _meant(name, _OF_AWS)
    if not str(extra.get("endpoint_url") or "https://").startswith(("http://", "https://")):
        return f"endpoint_url is {extra['endpoint_url']!r}", "write it as https://host:port"
    if login and extra.get("role_arn"):
        return "it has a login and a role_arn", "leave one out: a role is taken by the machine's own credentials"
    return _file_fault({"verify": str(extra["verify"])} if "verify" in extra else {})


# Gives what is wrong and its cure; both empty where nothing is.
_RULES: Mapping[str, Callable[[Mapping[str, Any], str], tuple[str, str]]] = {
    **{kind: partial(_fault, kind) for kind in _KNOWN},
    "kafka": _kafka_fault,
    "aws": _aws_fault,
    "iceberg": _iceberg_fault,
}
