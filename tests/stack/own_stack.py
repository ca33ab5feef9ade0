"""A stack with a data folder and ports of its own."""

import subprocess
import sys
from dataclasses import dataclass

import psutil
import psycopg
import pymysql
from confluent_kafka.admin import AdminClient

from seamline import settings
from seamline.adapters.connections import resolve
from seamline.adapters.kafka.client import admin_client, client_settings
from seamline.platform import database
from seamline.platform.host_lease import holder_of
from seamline.settings import Settings
from seamline.stack import leftovers
from seamline.stack.layout import Layout


@dataclass(frozen=True)
class OwnStack:
    """A stack that may be mistreated."""

    settings: Settings

    @property
    def layout(self) -> Layout:
        return Layout(self.settings)

    def run(self, *command: str, timeout_s: float = 900, **variables: str) -> subprocess.CompletedProcess[str]:
        environment = {**settings.process_environment(), **settings.as_environment(self.settings), **variables}
        return subprocess.run(
            [sys.executable, "-m", "seamline.cli.main", *command],
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def up(self, *parts: str) -> None:
        answer = self.run("up", *(["--only", ",".join(parts)] if parts else []))
        assert answer.returncode == 0, answer.stdout + answer.stderr

    def down(self) -> str:
        """What it said."""
        answer = self.run("down")
        assert answer.returncode == 0, answer.stdout + answer.stderr
        return answer.stdout

    def pids(self, program: str) -> set[int]:
        return {one.pid for one in leftovers.processes(self.layout) if one.program == program}

    def pid(self, program: str) -> int:
        """Of the process that has started the program's others. Their numbers say nothing: the kernel begins again at
        small ones."""
        pids = self.pids(program)
        (first,) = [pid for pid in pids if psutil.Process(pid).ppid() not in pids]
        return first

    def warehouse(self) -> psycopg.Connection:
        known = resolve("warehouse", within=self.settings)
        return psycopg.connect(
            host=known.host, port=known.port, user=known.login, password=known.password, dbname=known.database
        )

    def stream_hosts(self) -> set[int]:
        """The processes that hold a pool of streams now."""
        known = database.parameters(
            resolve(database.CONNECTION_ID, within=self.settings), application_name="test", statement_timeout_s=10
        )
        with psycopg.connect(**known) as session:
            rows = session.execute("select holder from host_lease where expires_at > clock_timestamp()").fetchall()
        return {holder_of(holder).process for (holder,) in rows}

    def bank(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        known = resolve("bank_app", within=self.settings)
        return pymysql.connect(
            host=known.host, port=known.port, user=known.login, password=known.password, database=known.database
        )

    def kafka(self) -> AdminClient:
        return admin_client(client_settings(resolve("kafka", within=self.settings)))
