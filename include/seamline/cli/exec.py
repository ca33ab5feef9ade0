"""Run a program with the variables of the local stack, for example `./seamline exec airflow dags list`.

The servers' own clients, `psql` and `mariadb`, are found too, and `mysql` where it is on PATH. With `--as <connection
id>` they open that connection: `./seamline exec --as warehouse psql`. Without a program it is the client of its server.
"""

import argparse
import os
import shutil
from collections.abc import Sequence

from seamline import settings
from seamline.adapters.airflow_rest import AirflowRest
from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import ConfigError
from seamline.kinds.command_line import CommandLineClient
from seamline.kinds.found import command_line_client
from seamline.spec.faults import guess
from seamline.stack import credentials, postgres, programs
from seamline.stack.layout import Layout


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
        client, program = _client_of(known, program)
        client.require(program, shutil.which(program, path=variables["PATH"]))
        more, options = client.opening(program, known)
        variables, words = {**variables, **more}, [*options, *words]
    _require_known_dag(layout, args.command)
    binary = _found(program, variables["PATH"])
    os.execve(binary, [binary, *words], variables)


def _found(program: str, path: str) -> str:
    """Where the program is; ConfigError with the cure where it is not."""
    binary = shutil.which(program, path=path)
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


def _client_of(known: Connection, wanted: str) -> tuple[CommandLineClient, str]:
    """What opens the connection, and the program of its server; ConfigError where another program is wanted."""
    client = command_line_client(known.kind)
    program = client.program(known) if client else ""
    if client is None or wanted not in ("", program):
        raise ConfigError(
            f"{wanted or 'no client'} does not open connection {known.connection_id}, which is of kind {known.kind}",
            hint=f"./seamline exec --as {known.connection_id} {program}" if program else "name one of a database",
        )
    return client, program
