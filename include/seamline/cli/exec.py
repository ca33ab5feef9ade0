"""Run a program with the variables of the local stack, for example `./seamline exec airflow dags list`.

The servers' own clients, `psql` and `mariadb`, are found too; with `--as <connection id>` they open that connection:
`./seamline exec --as warehouse psql`.
"""

import argparse
import os
import shutil

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import ConfigError
from seamline.stack import postgres, programs
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
        more, options = _client_of(resolve(args.connection))
        variables, words = variables | more, [*options, *words]
    binary = shutil.which(program, path=variables["PATH"])
    if binary is None:
        raise ConfigError(
            f"There is no program `{program}` in the environment or on PATH",
            hint="name one of the environment (airflow, python), a client (psql, mariadb) or a path",
        )
    os.execve(binary, [binary, *words], variables)


def _client_of(known: Connection) -> tuple[dict[str, str], list[str]]:
    """Variables and options by which a server's own client opens a connection; the password is in no argument."""
    if known.kind == "postgres":
        place = {"PGHOST": known.host, "PGPORT": str(known.port), "PGDATABASE": known.database}
        return {**place, "PGUSER": known.login, "PGPASSWORD": known.password}, []
    if known.kind == "mysql":
        options = [
            f"--host={known.host}",
            f"--port={known.port}",
            f"--user={known.login}",
            f"--database={known.database}",
        ]
        return {"MYSQL_PWD": known.password}, options
    raise ConfigError(
        f"connection {known.connection_id} is of kind {known.kind}: no client here opens it",
        hint="name one of kind postgres or mysql",
    )
