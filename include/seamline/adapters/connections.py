"""Connections by id: what is needed to reach a server, kept out of every declaration and plan.

The file is the one that Airflow's LocalFilesystemBackend reads, so a connection is written down once:
`{"warehouse": {"conn_type": "postgres", "host": …, "port": …, "login": …, "password": …, "schema": …, "extra": {…}}}`.
It is read again at each call, so a changed password needs no restart. What `extra` says is checked each time: TLS
that cannot be had as it was asked for is an error, never a session in the clear.
"""

import difflib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from seamline import settings
from seamline.adapters.connection_extra import checked, first_server, has_web_address
from seamline.adapters.private_file import alone_in, write_private
from seamline.domain.errors import ConfigError
from seamline.settings import Settings


@dataclass(frozen=True, slots=True)
class Connection:
    """A resolved connection. `kind` is Airflow's `conn_type`, postgres and mysql under these names alone; `database`
    is Airflow's `schema`."""

    connection_id: str
    kind: str
    host: str
    port: int
    login: str = ""
    password: str = field(default="", repr=False)
    database: str = ""
    extra: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}), repr=False)


def resolve(connection_id: str, *, within: Settings | None = None) -> Connection:
    """Return the connection with this id: from SEAMLINE_CONNECTION_<ID> if set, else from the connections file.

    Both hold a URI or Airflow's JSON. ConfigError for what is not there, cannot be read or cannot be honoured.
    """
    known = within or settings.load()
    given = known.connection_uris.get(connection_id.lower())
    if given:
        return _from_text(connection_id, given, where=f"SEAMLINE_CONNECTION_{connection_id.upper()}")
    entries = _read_file(known)
    if connection_id not in entries:
        raise _unknown(connection_id, known, entries)
    entry, where = entries[connection_id], f"Connection `{connection_id}` in {known.connections}"
    if isinstance(entry, str):
        return _from_text(connection_id, entry, where=where)
    return _from_entry(connection_id, entry, where=where)


def parsed(uri: str, *, connection_id: str = "given") -> Connection:
    """The connection that a URI, or Airflow's JSON, says by itself. ConfigError as for `resolve`."""
    return _from_text(connection_id, uri, where="the connection")


def known_ids(*, within: Settings | None = None) -> frozenset[str]:
    """The ids that `resolve` finds here; none where neither file nor variables are there yet."""
    known = within or settings.load()
    return frozenset({*_read_file(known), *known.connection_uris})


def known_types(*, within: Settings | None = None) -> dict[str, str]:
    """Airflow's `conn_type` of each of `known_ids`; "" of one that is not usable: who resolves it says why."""
    return {connection_id: _type_of(connection_id, within) for connection_id in known_ids(within=within)}


def _type_of(connection_id: str, within: Settings | None) -> str:
    try:
        return resolve(connection_id, within=within).kind
    except ConfigError:
        return ""


def put(entries: Mapping[str, Mapping[str, Any]], *, within: Settings | None = None) -> bool:
    """Write these into the connections file, which stays private; the others stay. Whether that changed anything."""
    made = {connection_id: dict(entry) for connection_id, entry in entries.items()}
    return _rewritten(within or settings.load(), lambda before: {**before, **made})


def remove(connection_ids: Collection[str], *, within: Settings | None = None) -> bool:
    """Take these out of the connections file. Whether one of them was there."""
    return _rewritten(
        within or settings.load(),
        lambda before: {name: entry for name, entry in before.items() if name not in connection_ids},
    )


def _rewritten(known: Settings, change: Callable[[dict[str, Any]], dict[str, Any]]) -> bool:
    with alone_in(known.connections.parent):
        before = _read_file(known)
        after = change(before)
        if after != before:
            write_private(known.connections, json.dumps(after, indent=2) + "\n")
    return after != before


def _read_file(known: Settings) -> dict[str, Any]:
    try:
        entries = json.loads(known.connections.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as exc:
        raise ConfigError(
            f"The connections file {known.connections} cannot be read: {exc}",
            hint="it must be a JSON object of connection ids, readable by this user",
        ) from exc
    if not isinstance(entries, dict):
        raise ConfigError(
            f"The connections file {known.connections} must hold a JSON object of connection ids",
            hint='for example {"warehouse": {"conn_type": "postgres", "host": "127.0.0.1", "port": 5432}}',
        )
    return entries


def _unknown(connection_id: str, known: Settings, entries: Mapping[str, Any]) -> ConfigError:
    near = difflib.get_close_matches(connection_id, list(entries), n=1)
    guess = f"Did you mean `{near[0]}`? " if near else ""
    if not entries:
        guess = "That file is missing or empty; `./seamline up` writes it for the local stack. "
    return ConfigError(
        f"Connection `{connection_id}` is not in {known.connections}",
        hint=f"{guess}`./seamline connect add {connection_id} kind://login@host/database`, or set"
        f" SEAMLINE_CONNECTION_{connection_id.upper()} to a URI",
    )


def _has_no_server(kind: str) -> bool:
    """A cloud's service is found by its region; another server of its kind is named in `extra`."""
    return kind == "aws"


def _may_have_no_port(kind: str, host: str) -> bool:
    """An address of the web has one of its own; so has a host that is a whole URL, with its kind as the scheme."""
    return host.startswith(f"{kind}:") or _has_no_server(kind) or has_web_address(kind)


# Airflow's own other names; no scheme of a URI has an underscore.
_KINDS = {"postgresql": "postgres", "mariadb": "mysql", "hive-metastore": "hive_metastore"}


def _from_text(connection_id: str, text: str, *, where: str) -> Connection:
    if not text.lstrip().startswith("{"):
        return _from_uri(connection_id, text, where=where)
    try:
        entry = json.loads(text)
    except ValueError:
        # Its words would quote the text, which holds a password.
        raise ConfigError(f"{where} is no JSON object", hint="write one, or a URI") from None
    return _from_entry(connection_id, entry, where=where)


def _from_entry(connection_id: str, entry: Any, *, where: str) -> Connection:
    try:
        extra = entry.get("extra") or {}
        extra = dict(json.loads(extra) if isinstance(extra, str) else extra)
        entry = {**first_server(str(entry["conn_type"]), extra), **{name: one for name, one in entry.items() if one}}
        host = str(entry.get("host") or "" if _has_no_server(entry["conn_type"]) else entry["host"])
        return _connection(
            connection_id,
            kind=str(entry["conn_type"]),
            host=host,
            port=int(entry.get("port") or 0 if _may_have_no_port(entry["conn_type"], host) else entry["port"]),
            login=str(entry.get("login") or ""),
            password=str(entry.get("password") or ""),
            database=str(entry.get("schema") or ""),
            extra=extra,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as exc:
        raise ConfigError(
            f"{where} is not usable: {type(exc).__name__} {exc}",
            hint="conn_type, host and port are needed; extra is a JSON object",
        ) from exc


def _from_uri(connection_id: str, uri: str, *, where: str) -> Connection:
    try:
        parts = urlsplit(uri)
        port = parts.port
        # A setting without a value is refused as any other: passed over, the session could be in the clear.
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
    except ValueError:
        raise _no_uri(where) from None
    # The rest of a password with a `/`, `?` or `#` in it.
    if "@" in parts.path or parts.fragment or any("@" in name for name in query):
        raise _no_uri(where)
    extra = _with_airflows_own(query, where)
    # A host that is a whole URL is quoted, and `hostname` would give it other letters.
    given = unquote(parts.netloc.rpartition("@")[2])
    host = given if given.startswith(f"{parts.scheme}:") else parts.hostname or ""
    if not host and (first := first_server(parts.scheme, extra)):
        host, port = first["host"], int(first["port"])
    has_port = port is not None or _may_have_no_port(parts.scheme, host)
    if not parts.scheme or not (_has_no_server(parts.scheme) or (host and has_port)):
        raise _no_uri(where)
    return _connection(
        connection_id,
        kind=parts.scheme,
        host=host,
        port=port or 0,
        login=unquote(parts.username or ""),
        password=unquote(parts.password or ""),
        database=unquote(parts.path.lstrip("/")),
        extra=extra,
    )


def _no_uri(where: str) -> ConfigError:
    # The URI holds a password: it is named by its place, never printed.
    return ConfigError(
        f"{where} is not a URI",
        hint="write kind://login@host:port/database, and as %XX what is special in it: / ? # [ ] @ : %. A password"
        " stands behind the login and a colon in a variable or a file, never in a command",
    )


def _with_airflows_own(query: Mapping[str, str], where: str) -> dict[str, Any]:
    """So Airflow writes an extra that is more than names and texts."""
    found: dict[str, Any] = dict(query)
    try:
        own: dict[str, Any] = json.loads(found.pop("__extra__", "{}"))
        return found | own
    except (TypeError, ValueError):
        raise ConfigError(f"{where}: `__extra__` is no JSON object", hint="write settings as ?name=value") from None


def _connection(connection_id: str, *, kind: str, extra: dict[str, Any], login: str, **where: Any) -> Connection:
    kind = _KINDS.get(kind, kind)
    if kind == "http" and where["database"] == "https":
        # So an HTTP connection of Airflow's asks for TLS.
        kind = "https"
    known = checked(connection_id, kind, extra, login=login)
    return Connection(connection_id=connection_id, kind=kind, login=login, extra=MappingProxyType(known), **where)
