"""Run a program with the variables of the local stack, for example `./seamline exec airflow dags list`.

The servers' own clients, `psql` and `mariadb`, are found too, and `mysql` where it is on PATH. With `--as <connection
id>` they open that connection: `./seamline exec --as warehouse psql`. Without a program it is the client of its server.
"""

import argparse
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from seamline import settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.tls import Tls, libpq_tls, tls_of
from seamline.domain.errors import ConfigError, TransientError
from seamline.spec.faults import guess
from seamline.stack import credentials, postgres, programs
from seamline.stack.layout import Layout

_GREETING_S = 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="connection", metavar="ID", help="open this connection with its server's client")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    if not args.command and not args.connection:
        raise ConfigError("No program was named", hint="for example: ./seamline exec airflow dags list")
    variables = programs.airflow_environment(layout)
    variables["PATH"] = f"{postgres.binaries()}:{layout.mariadb_server / 'bin'}:{variables['PATH']}"
    program, *words = args.command or [""]
    if args.connection:
        known = resolve(args.connection)
        program = client_of(known, wanted=program)
        more, options = opened_by(program, known)
        variables, words = variables | more, [*options, *words]
    _require_known_dag(layout, args.command)
    binary = found(program, variables["PATH"])
    os.execve(binary, [binary, *words], variables)


def found(program: str, path: str) -> str:
    """Where the program is; ConfigError with the cure where it is not."""
    binary = shutil.which(program, path=path)
    if program == "mysql" and (binary is None or "mariadb" in Path(binary).resolve().name):
        raise ConfigError(
            "MySQL's own client `mysql` is not on PATH",
            hint="install it (`default-mysql-client` of Debian is MariaDB's; MySQL's is `mysql-community-client` of its"
            " own repository, or `mysql-client` of Ubuntu). MariaDB's client cannot log in with caching_sha2_password",
        )
    if binary is None:
        raise ConfigError(
            f"There is no program `{program}` in the environment or on PATH",
            hint="name one of the environment (airflow, python), a client (psql, mariadb) or a path",
        )
    return binary


def _require_known_dag(layout: Layout, command: Sequence[str]) -> None:
    """Refuse a trigger of a DAG that Airflow does not know: its own command would end in a traceback."""
    if tuple(command[:3]) != ("airflow", "dags", "trigger"):
        return
    user = "operator"
    password = credentials.load_or_make(layout)[f"airflow_user_{user}"]
    with AirflowRest(f"http://127.0.0.1:{layout.settings.ports.airflow}", user, password) as airflow:
        known, broken = airflow.dag_ids(), airflow.import_errors()
    words = [word for word in command[3:] if not word.startswith("-")]
    if not words or known.intersection(words):
        return
    # An option may stand before it, with a value.
    named = next((word for word in words if "__" in word), words[-1])
    raise ConfigError(
        "\n".join([f"Airflow knows no DAG `{named}`", *broken]),
        hint=f"{guess(named, sorted(known))} Airflow reads the declarations of the last `./seamline up`, a new file"
        " among them within 90 s; for those of another folder run `up` again",
    )


def client_of(known: Connection, *, wanted: str = "") -> str:
    """The client that the connection's server came with; ConfigError where another one is wanted."""
    client = "psql" if known.kind == "postgres" else _binlog_client(known) if known.kind == "mysql" else ""
    if not client or wanted not in ("", client):
        raise ConfigError(
            f"{wanted or 'no client'} does not open connection {known.connection_id}, which is of kind {known.kind}",
            hint=f"./seamline exec --as {known.connection_id} {client}" if client else "name one of a database",
        )
    return client


def _binlog_client(known: Connection) -> str:
    """A connection says `mysql` of MariaDB too; a server names its version before anybody has logged in."""
    try:
        with socket.create_connection((known.host, known.port), _GREETING_S) as session, session.makefile("rb") as sent:
            length = int.from_bytes(sent.read(4)[:3], "little")
            greeting = sent.read(length)
    except OSError as exc:
        raise TransientError(f"the server of connection {known.connection_id} does not answer: {exc}") from exc
    return "mariadb" if b"mariadb" in greeting.lower() else "mysql"


def opened_by(client: str, known: Connection) -> tuple[dict[str, str], list[str]]:
    """Variables and options by which a server's own client opens a connection; the password is in no argument."""
    if client == "psql":
        place = {"PGHOST": known.host, "PGPORT": str(known.port), "PGDATABASE": known.database}
        tls = {f"PG{name.upper()}": value for name, value in libpq_tls(known).items()}
        return {**place, **tls, "PGUSER": known.login, "PGPASSWORD": known.password}, []
    options = [f"--host={known.host}", f"--port={known.port}", f"--user={known.login}", f"--database={known.database}"]
    options += _mysql_tls(known) if client == "mysql" else _mariadb_tls(known)
    return {"MYSQL_PWD": known.password}, options


def _mysql_tls(known: Connection) -> list[str]:
    tls = tls_of(known)
    modes = {"disable": "DISABLED", "require": "REQUIRED", "verify-ca": "VERIFY_CA", "verify-full": "VERIFY_IDENTITY"}
    mode = [f"--ssl-mode={modes[tls.mode]}"] if tls.mode in modes else []
    # Else a first login by caching_sha2_password takes an encrypted session.
    in_the_clear = [] if tls.is_encrypted else ["--get-server-public-key"]
    return [*mode, *in_the_clear, *_files(tls)]


def _mariadb_tls(known: Connection) -> list[str]:
    """By itself the client of 11.4 encrypts where it can, and verifies where it has a password."""
    tls = tls_of(known)
    if not tls.is_encrypted:
        return ["--skip-ssl"] if tls.mode else []
    if tls.mode == "verify-ca":
        raise ConfigError(
            f"the mariadb client verifies host name and CA or neither, and connection {known.connection_id} asks for"
            " verify-ca",
            hint="make a connection of its own for it, with sslmode verify-full",
        )
    verify = "--ssl-verify-server-cert" if tls.mode == "verify-full" else "--skip-ssl-verify-server-cert"
    return ["--ssl", verify, *_files(tls)]


def _files(tls: Tls) -> list[str]:
    named = {"--ssl-ca": tls.ca, "--ssl-cert": tls.certificate, "--ssl-key": tls.key}
    return [f"{option}={place}" for option, place in named.items() if place]
