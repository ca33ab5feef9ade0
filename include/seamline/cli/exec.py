"""Run a program with the variables of the local stack, for example `./seamline exec airflow dags list`.

The servers' own clients, `psql` and `mariadb`, are found too.
"""

import argparse
import os
import shutil

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.stack import postgres, programs
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("command", nargs=argparse.REMAINDER, help="the program and its arguments")


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    if not args.command:
        raise ConfigError("No program was named", hint="for example: ./seamline exec airflow dags list")
    variables = programs.airflow_environment(layout)
    variables["PATH"] = f"{postgres.binaries()}:{layout.mariadb_server / 'bin'}:{variables['PATH']}"
    binary = shutil.which(args.command[0], path=variables["PATH"])
    if binary is None:
        raise ConfigError(
            f"There is no program `{args.command[0]}` in the environment or on PATH",
            hint="name one of the environment (airflow, python), a client (psql, mariadb) or a path",
        )
    os.execve(binary, [binary, *args.command[1:]], variables)
