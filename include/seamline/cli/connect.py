"""Connections: add one by its address, list, test and remove them.

`add` asks for the password, or reads one line from standard input where that is no terminal; it is never an argument.
The server is asked before anything is stored. A stack that is up takes a connection as it is from then on. Of a
connection that declarations name, only what they use it for is called lacking.
"""

import argparse
import getpass
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from seamline import settings
from seamline.adapters.connections import Connection, known_ids, parsed, put, remove, resolve
from seamline.adapters.reachable import require_answer
from seamline.adapters.tls import tls_of
from seamline.cli.answer import give
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.domain.server_found import CAPTURES, MAKES, READS, ServerFound, Use, keeps, lists
from seamline.kinds.command_line import KeepsNamespaces, ReachesPlaces, StartsFirst
from seamline.kinds.found import command_line_client, server_client
from seamline.spec.destination import Destination
from seamline.spec.faults import guess
from seamline.spec.load import read_folder
from seamline.spec.source import DeclaredSource

_ID = re.compile(r"[a-z][a-z0-9_]*\Z")
_PORTS = {"postgres": 5432, "postgresql": 5432, "mysql": 3306, "mariadb": 3306, "kafka": 9092, "sftp": 22, "ftp": 21}
# Of settings, Kafka's among them, whose value is the secret and not where it stands.
_SECRET = re.compile(r"(?i)(pass(word|phrase)|pwd|secret|token|key\.pem|jaas\.config)\Z")
# Names of settings in a host that is a whole address, behind what different servers divide them by.
_IN_AN_ADDRESS = re.compile(r"[;?&:,(]([\w.]+)=")
# Whatever is declared: the log, its capture, the two databases, Airflow's REST and where Spark runs.
_OF_SPARK = "spark_default"
_OF_THE_PLATFORM = frozenset({"kafka", "connect", "seamline_db", "airflow_db", "airflow", _OF_SPARK})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    orders = parser.add_subparsers(dest="order", required=True, metavar="add|list|test|remove")
    add = orders.add_parser("add", help="ask the server, then store the connection")
    add.add_argument("id", help="how declarations name it, as core_bank")
    add.add_argument("url", help="kind://login@host:port/database?sslmode=verify-full&sslrootcert=FILE, no password")
    add.add_argument("--replace", action="store_true", help="store it in place of one that has this id")
    add.add_argument("--untested", action="store_true", help="store it although its server does not let it in")
    orders.add_parser("list", help="the connections that are known here, without their passwords")
    test = orders.add_parser("test", help="ask its server again, and compare with what declarations use it for")
    test.add_argument("id")
    remove = orders.add_parser("remove", help="forget a connection that no declaration names")
    remove.add_argument("id")
    parser.epilog = "Every setting: docs/reference/connections.md"


def run(args: argparse.Namespace) -> int:
    if args.order == "add":
        return _add(args)
    if args.order == "list":
        return _list(args)
    return _test(args) if args.order == "test" else _remove(args)


def _add(args: argparse.Namespace) -> int:
    known = settings.load()
    _require_free(args.id, may_replace=args.replace)
    given = _given(args.id, args.url)
    if given.login:
        given = replace(given, password=_password(given))
    # A connection may come before the first declaration.
    wanted = _declared().get(args.id, []) if known.declarations.is_dir() else []
    why = ""
    try:
        found: ServerFound | None = _with_places(given, examined(given), wanted)
    except SeamlineError as exc:
        if not args.untested:
            hint = "; ".join(
                part for part in (exc.hint, "nothing was stored (--untested stores it all the same)") if part
            )
            raise type(exc)(exc.message, hint=hint) from exc
        found, why = None, exc.message
    put({args.id: _entry(given)})
    lines = found_lines(args.id, found, wanted) if found else [f"{args.id}: not tested: {why}"]
    sys.stdout.write("".join(f"{line}\n" for line in [*lines, f"stored as `{args.id}` in {known.connections}"]))
    give(args, {"id": args.id, "file": str(known.connections), "found": found, "not_tested": why})
    return 0


def _require_free(connection_id: str, *, may_replace: bool) -> None:
    known = settings.load()
    if not _ID.match(connection_id):
        raise ConfigError(f"`{connection_id}` is no id", hint="small letters, digits and _, as core_bank")
    if connection_id in known.from_airflow:
        raise ConfigError(
            f"`{connection_id}` comes from Airflow's secrets (SEAMLINE_CONNECTIONS_FROM_AIRFLOW): add it there"
        )
    if connection_id in known.connection_uris:
        variable = f"SEAMLINE_CONNECTION_{connection_id.upper()}"
        raise ConfigError(
            f"{variable} is set and goes before the connections file", hint="change that variable, or take it away"
        )
    if connection_id in known_ids() and not may_replace:
        raise ConfigError(
            f"connection `{connection_id}` is there already", hint="--replace stores the new one in its place"
        )


def _given(connection_id: str, url: str) -> Connection:
    """The connection that a person wrote, with the kind's own port where none was said, and no password."""
    if "://" not in url:
        raise ConfigError("the connection is not a URI", hint="write kind://login@host:port/database")
    try:
        parts = urlsplit(url)
        port, has_password = parts.port, parts.password is not None
    except ValueError:
        raise ConfigError("this is no URL", hint="write kind://login@host:port/database") from None
    if has_password:
        raise _password_in_command("a password")
    _refuse_secrets(name for name, _ in parse_qsl(parts.query, keep_blank_values=True))
    if port is None and parts.scheme in _PORTS and parts.hostname:
        parts = parts._replace(netloc=f"{parts.netloc.rstrip(':')}:{_PORTS[parts.scheme]}")
    made = parsed(urlunsplit(parts), connection_id=connection_id)
    if made.password:
        raise _password_in_command("a password")
    _refuse_secrets([*made.extra, *_IN_AN_ADDRESS.findall(made.host)])
    if command_line_client(made.kind) is not None and not made.login:
        raise ConfigError("the URL names no login", hint="write kind://login@host:port/database")
    return made


def _refuse_secrets(names: Iterable[str]) -> None:
    for name in names:
        if _SECRET.search(name):
            raise _password_in_command(f"`{name}`")


def _password_in_command(what: str) -> ConfigError:
    return ConfigError(
        f"{what} does not belong into a command: your shell keeps what is typed",
        hint="leave it out: the password of the login before the host is asked for, any other secret belongs into the"
        " connections file; and change this one, which the shell's history has now",
    )


def _password(connection: Connection) -> str:
    """May be empty, as of a login by certificate. ConfigError: the question was left by ctrl-D."""
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    try:
        return getpass.getpass(f"Password of {connection.login} at {connection.host}: ")
    except EOFError:
        raise ConfigError("no password was given", hint="nothing was stored: run the command again") from None


def _entry(connection: Connection) -> dict[str, Any]:
    """As Airflow's LocalFilesystemBackend reads it."""
    entry = {
        "conn_type": connection.kind,
        "host": connection.host,
        "port": connection.port,
        "login": connection.login,
        "password": connection.password,
        "schema": connection.database,
        "extra": dict(connection.extra),
    }
    return {name: value for name, value in entry.items() if value}


def examined(connection: Connection) -> ServerFound:
    """What the connection's server says; of a kind that is not asked more, whether it can be reached."""
    client = server_client(connection.kind)
    if client is not None:
        if isinstance(client, StartsFirst):
            sys.stderr.write(f"{connection.connection_id}: {client.starting} is started, which takes seconds\n")
        return client.examined(connection)
    if not connection.port:
        return ServerFound(f"a connection of kind {connection.kind}", "not asked: preflight and `validate --online` do")
    require_answer(connection)
    return ServerFound(f"a server at {connection.host}:{connection.port}", "login and rights: preflight asks for them")


def _with_places(connection: Connection, found: ServerFound, wanted: Sequence["_Wanted"]) -> ServerFound:
    """With what the server shows of the places and namespaces that declarations name by this connection."""
    client, uses = server_client(connection.kind), [*found.uses]
    if isinstance(client, ReachesPlaces):
        uses += [client.place(connection, one) for one in dict.fromkeys(one.place for one in wanted) if one]
    if isinstance(client, KeepsNamespaces):
        uses += [client.namespace(connection, one) for one in dict.fromkeys(one.namespace for one in wanted) if one]
    return replace(found, uses=tuple(uses))


def found_lines(connection_id: str, found: ServerFound, wanted: Sequence["_Wanted"]) -> Iterator[str]:
    """What a login cannot do is listed where a declaration wants it, and all of it where none names the connection."""
    yield f"{connection_id}: {found.product}, {found.encryption}"
    roles = {role for one in wanted for role in one.roles}
    for use in found.uses:
        extent = f": {use.extent}" if use.extent else ""
        if use.is_possible:
            yield f"  can {use.role}{extent}"
        elif not wanted or use.role in roles:
            yield f"  cannot {use.role}: {use.why_not}"
    answered = {use.role for use in found.uses}
    asked = {one.by for one in wanted if one.role or one.roles & answered}
    for one in wanted if found.uses else ():
        if not one.role and one.by not in asked:
            yield f"  {one.by} needs other rights of it: `./seamline validate --online` asks for them"


def _list(args: argparse.Namespace) -> int:
    rows = [_row(one) for one in sorted(known_ids())]
    give(args, rows)
    wide = max((len(row["id"]) for row in rows), default=0)
    sys.stdout.write("".join(f"{row['id']:<{wide}}  {row['shown']}\n" for row in rows) or "there are none yet\n")
    return 0


def _row(connection_id: str) -> dict[str, str]:
    if connection_id == _OF_SPARK:
        return {"id": connection_id, "kind": "spark", "shown": "Airflow's own: where its Spark jobs run"}
    try:
        one = resolve(connection_id)
    except ConfigError as exc:
        return {"id": connection_id, "kind": "", "shown": f"not usable: {exc.message}"}
    login = f"{one.login}@" if one.login else ""
    port = f":{one.port}" if one.port else ""
    database = f"/{one.database}" if one.database else ""
    mode = tls_of(one).mode
    shown = f"{one.kind}://{login}{one.host}{port}{database}" + (f"  sslmode {mode}" if mode else "")
    return {"id": connection_id, "kind": one.kind, "shown": shown}


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What a declaration uses a connection for. `role`: of `Use`; "" where no server is asked for it, as for the rights
    on rows of a login that makes no table. `place`: for files, "" of all else. `namespace`: of a destination, "" of all
    else."""

    role: str
    by: str
    place: str = ""
    namespace: str = ""

    @property
    def roles(self) -> frozenset[str]:
        """All of `Use` that it may be answered by."""
        return frozenset({self.role, keeps(self.namespace) if self.namespace else ""} - {""})


def _declared() -> Mapping[str, list[_Wanted]]:
    """By connection id; of files that are right."""
    read, wanted = read_folder(settings.load().declarations), dict[str, list[_Wanted]]()
    for name, source in read.sources.items():
        for connection, role, place in _of_source(source.spec) if source.spec else ():
            wanted.setdefault(connection, []).append(_Wanted(role, f"source {name}", place))
    namespaces = {name: one.spec.namespace for name, one in read.destinations.items() if one.spec}
    for name, destination in read.destinations.items():
        for connection, role, place in _of_destination(destination.spec) if destination.spec else ():
            wanted.setdefault(connection, []).append(_Wanted(role, f"destination {name}", place, namespaces[name]))
    return wanted


def _of_source(spec: DeclaredSource) -> Iterator[tuple[str, str, str]]:
    """Connection id, role and place of what reads a source, and of what reads and marks its log."""
    if spec.connection:
        yield spec.connection, READS, ""
    if spec.has_log:
        capture, marker = spec.logins_of_log
        yield capture, CAPTURES, ""
        if marker != spec.connection:
            yield marker, "", ""
    yield from _of_places(spec.places)


def _of_destination(spec: Destination) -> Iterator[tuple[str, str, str]]:
    yield spec.connection, MAKES, ""
    for other in (spec.writer_connection, *(getattr(spec, key, None) for key in spec.other_connections)):
        if other:
            yield str(other), "", ""
    yield from _of_places(spec.places)


def _of_places(places: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    for place, connection in places.items():
        yield connection, lists(place), place


def _test(args: argparse.Namespace) -> int:
    known, wanted = resolve(args.id), _declared().get(args.id, [])
    found = _with_places(known, examined(known), wanted)
    lacking = list(_lacking(found.uses, wanted))
    sys.stdout.write("".join(f"{line}\n" for line in [*found_lines(args.id, found, wanted), *lacking]))
    give(args, {"id": args.id, **asdict(found), "lacking": lacking})
    return 1 if lacking else 0


def _lacking(uses: tuple[Use, ...], wanted: list[_Wanted]) -> Iterator[str]:
    for one in wanted:
        for use in uses:
            if use.role in one.roles and not use.is_possible:
                name = one.by.rpartition(" ")[2]
                yield f"{one.by} needs it to {use.role}: `./seamline grants {name}` prints what the owner runs"


def _remove(args: argparse.Namespace) -> int:
    known = settings.load()
    if args.id in known.connection_uris:
        raise ConfigError(f"SEAMLINE_CONNECTION_{args.id.upper()} is set", hint="take that variable away")
    if args.id not in known_ids():
        raise ConfigError(f"there is no connection `{args.id}`", hint=guess(args.id, sorted(known_ids())))
    if args.id in _OF_THE_PLATFORM:
        raise ConfigError(
            f"connection `{args.id}` is one that Seamline itself needs",
            hint=f"nothing was removed; `./seamline connect add {args.id} URL --replace` gives it another server",
        )
    if users := sorted({one.by for one in _declared().get(args.id, [])}):
        raise ConfigError(
            f"connection `{args.id}` is used by {', '.join(users)}", hint="change these declarations first"
        )
    remove([args.id])
    sys.stdout.write(f"removed `{args.id}` from {known.connections}\n")
    give(args, {"id": args.id, "file": str(known.connections)})
    return 0
