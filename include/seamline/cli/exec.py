"""Run a program with the variables of the local stack, for example `./seamline exec airflow dags list`.

The servers' own clients, `psql` and `mariadb`, are found too; with `--as <connection id>` they open that connection:
`./seamline exec --as warehouse psql`.
"""

import argparse
import os
import shutil
from collections.abc import Sequence

from seamline import settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.adapters.connections import Connection, resolve
from seamline.adapters.tls import libpq_tls, tls_of
from seamline.domain.errors import ConfigError
from seamline.spec.faults import guess
from seamline.stack import credentials, postgres, programs
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--as", dest="connection", metavar="ID", help="open this connection with psql or mariadb")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    if not args.command:
        raise ConfigError("No program was named", hint="for example: ./seamline exec airflow dags list")
    variables = programs.airflow_environment(layout)
    variables["PATH"] = f"{postgres.binaries()}:{layout.mariadb_server / 'bin'}:{variables['PATH']}"
    program, *words = args.command
    if args.connection:
        more, options = _opened_by(program, resolve(args.connection))
        variables, words = variables | more, [*options, *words]
    _require_known_dag(layout, args.command)
    binary = shutil.which(program, path=variables["PATH"])
    if binary is None:
        raise ConfigError(
            f"There is no program `{program}` in the environment or on PATH",
            hint="name one of the environment (airflow, python), a client (psql, mariadb) or a path",
        )
    os.execve(binary, [binary, *words], variables)


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


def _opened_by(program: str, known: Connection) -> tuple[dict[str, str], list[str]]:
    """Variables and options by which a server's own client opens a connection; the password is in no argument."""
    client = {"postgres": "psql", "mysql": "mariadb"}.get(known.kind)
    if client is None or program != client:
        raise ConfigError(
            f"{program} does not open connection {known.connection_id}, which is of kind {known.kind}",
            hint=f"./seamline exec --as {known.connection_id} {client}" if client else "name one of a database",
        )
    if client == "psql":
        place = {"PGHOST": known.host, "PGPORT": str(known.port), "PGDATABASE": known.database}
        tls = {f"PG{name.upper()}": value for name, value in libpq_tls(known).items()}
        return {**place, **tls, "PGUSER": known.login, "PGPASSWORD": known.password}, []
    options = [f"--host={known.host}", f"--port={known.port}", f"--user={known.login}", f"--database={known.database}"]
    return {"MYSQL_PWD": known.password}, [*options, *_mariadb_tls(known)]


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
    named = {"--ssl-ca": tls.ca, "--ssl-cert": tls.certificate, "--ssl-key": tls.key}
    return ["--ssl", verify, *(f"{option}={place}" for option, place in named.items() if place)]
