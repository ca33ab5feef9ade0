"""Supervisor keeps the programs alive. It listens on a socket file that only its owner may open, on no port."""

import contextlib
import http.client
import os
import subprocess
import xmlrpc.client
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import psutil
from supervisor.xmlrpc import Faults, SupervisorTransport

from seamline import settings
from seamline.domain.errors import ConfigError, TerminalError
from seamline.stack import leftovers
from seamline.stack.components import PROGRAMS, Program
from seamline.stack.layout import Layout
from seamline.stack.waiting import wait_until

_STARTED_WITHIN_S = 20
_DO_NOT_WAIT = False
_HEAD = """[supervisord]
logfile={folder}/supervisord.log
logfile_maxbytes=10MB
logfile_backups=1
pidfile={pid_file}
childlogdir={logs}
directory={folder}
identifier=seamline
minfds=1024
umask=077
[unix_http_server]
file={socket}
chmod=0700
[rpcinterface:supervisor]
supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface
"""
# Everything is started by `up`, in the order of what needs what; Supervisor only keeps it running after that.
_PROGRAM = """[program:{name}]
command={python} -m seamline.stack.run {name}
autostart=false
autorestart=true
startsecs=2
startretries=8
stopsignal={stop_signal}
stopwaitsecs={stop_wait_s}
stopasgroup={stops_group}
killasgroup=true
redirect_stderr=true
stdout_logfile={log}
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=2
"""
# Only for programs that read them: the others would be started again for nothing.
_ENVIRONMENT = "environment={variables}\n"
_MAY_CHANGE = ("SEAMLINE_CONNECTIONS", "SEAMLINE_DECLARATIONS")


@dataclass(frozen=True, slots=True)
class ProgramState:
    name: str
    state: str
    pid: int
    since: int
    said: str

    @property
    def is_running(self) -> bool:
        return self.state == "RUNNING"

    @property
    def is_wanted(self) -> bool:
        """Running, or Supervisor is trying."""
        return self.state in ("RUNNING", "STARTING", "BACKOFF")


def write_configuration(layout: Layout) -> None:
    for folder in (layout.supervisor, layout.logs, layout.sockets):
        folder.mkdir(parents=True, exist_ok=True)
    head = _HEAD.format(
        folder=layout.supervisor, pid_file=layout.supervisor_pid, logs=layout.logs, socket=layout.supervisor_socket
    )
    parts = [head, *(_section(program, layout) for program in PROGRAMS.values())]
    (layout.supervisor / "supervisord.conf").write_text("".join(parts).replace("%", "%%"), encoding="utf-8")


def _section(program: Program, layout: Layout) -> str:
    section = _PROGRAM.format(
        name=program.name,
        python=layout.python,
        stop_signal=program.stop_signal,
        stop_wait_s=program.stop_wait_s,
        stops_group=str(program.stops_group).lower(),
        log=layout.log_of(program.name),
    )
    if not program.reads_declarations:
        return section
    known = settings.as_environment(layout.settings)
    return section + _ENVIRONMENT.format(variables=",".join(f'{name}="{known[name]}"' for name in _MAY_CHANGE))


def start(layout: Layout) -> None:
    """Start Supervisor itself. It detaches: a session of its own, by which its children are known."""
    write_configuration(layout)
    environment = {
        **settings.process_environment(),
        **settings.as_environment(layout.settings),
        leftovers.STACK: str(layout.data),
        leftovers.PROGRAM: "supervisor",
    }
    result = subprocess.run(
        [str(layout.python), "-m", "supervisor.supervisord", "-c", str(layout.supervisor / "supervisord.conf")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=_STARTED_WITHIN_S,
        check=False,
    )
    if result.returncode != 0 or not wait_until(lambda: is_running(layout), timeout_s=_STARTED_WITHIN_S):
        raise TerminalError(
            f"Supervisor did not start: {(result.stderr or result.stdout).strip() or 'it gave no reason'}",
            hint=f"its log is {layout.supervisor / 'supervisord.log'}",
        )


def take_new_settings(layout: Layout) -> tuple[str, ...]:
    """Let a running Supervisor know what its configuration says now: programs that came since, and those whose
    settings changed. Of these the ones that ran are started again; they are returned."""
    write_configuration(layout)
    ((added, changed, _),) = _client(layout).supervisor.reloadConfig()
    ran = tuple(name for name in changed if states(layout)[name].is_wanted)
    stop_programs(layout, changed)
    for name in changed:
        _client(layout).supervisor.removeProcessGroup(name)
    for name in (*added, *changed):
        _client(layout).supervisor.addProcessGroup(name)
    for name in ran:
        start_program(layout, name)
    return ran


def require_same_place(layout: Layout) -> None:
    """Refuse settings that every program of a running stack would have to be started with again."""
    running = settings.load(psutil.Process(pid_of(layout)).environ())
    wanted = layout.settings
    differing = [
        name
        for name, is_same in (
            ("SEAMLINE_PORT_BASE", running.ports == wanted.ports),
            ("SEAMLINE_HOME", running.home == wanted.home),
            ("SEAMLINE_CONNECTION_<ID>", running.connection_uris == wanted.connection_uris),
        )
        if not is_same
    ]
    if differing:
        raise ConfigError(
            f"the stack in {layout.data} runs with another {' and another '.join(differing)}",
            hint="./seamline down with the settings of before, then up with these",
        )


def is_running(layout: Layout) -> bool:
    try:
        return bool(_client(layout).supervisor.getState()["statename"] == "RUNNING")
    except (OSError, http.client.HTTPException, xmlrpc.client.Error):
        return False


def pid_of(layout: Layout) -> int:
    return int(_client(layout).supervisor.getPID())


def states(layout: Layout) -> dict[str, ProgramState]:
    """The state of every program, by name. One that came with a newer checkout than Supervisor's start is stopped."""
    unknown = {name: ProgramState(name, "STOPPED", pid=0, since=0, said="") for name in PROGRAMS}
    return unknown | {
        info["name"]: ProgramState(info["name"], info["statename"], info["pid"], info["start"], info["spawnerr"])
        for info in _client(layout).supervisor.getAllProcessInfo()
    }


def state(layout: Layout, program: str) -> ProgramState:
    return states(layout)[program]


def start_program(layout: Layout, program: str) -> None:
    """Ask for a program to run. Asking again changes nothing."""
    with _tolerating(Faults.ALREADY_STARTED):
        _client(layout).supervisor.startProcess(program, _DO_NOT_WAIT)


def stop_programs(layout: Layout, programs: Iterable[str]) -> None:
    """Stop these programs, all at the same time, and wait until each has ended."""
    wanted = [name for name in programs if states(layout)[name].is_wanted]
    client = _client(layout)
    for name in wanted:
        with _tolerating(Faults.NOT_RUNNING):
            client.supervisor.stopProcess(name, _DO_NOT_WAIT)
    longest_s = max((PROGRAMS[name].stop_wait_s for name in wanted), default=0) + 10
    # Past its time Supervisor kills what did not stop.
    wait_until(lambda: all(not one.pid for one in states(layout).values() if one.name in wanted), timeout_s=longest_s)


def shut_down(layout: Layout) -> None:
    """End Supervisor, whose programs have been stopped."""
    pid = pid_of(layout)
    _client(layout).supervisor.shutdown()
    wait_until(lambda: not _exists(pid), timeout_s=_STARTED_WITHIN_S)


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@contextlib.contextmanager
def _tolerating(fault: int) -> Iterator[None]:
    """Let one answer of Supervisor pass: the program is in the wanted state already."""
    try:
        yield
    except xmlrpc.client.Fault as exc:
        if exc.faultCode != fault:
            raise


def _client(layout: Layout) -> Any:
    transport = SupervisorTransport(None, None, f"unix://{layout.supervisor_socket}")
    return xmlrpc.client.ServerProxy("http://127.0.0.1", transport=transport)
