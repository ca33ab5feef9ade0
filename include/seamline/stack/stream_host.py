"""Whether the local stream host is at work, and who stands in its place."""

from collections.abc import Iterable
from contextlib import closing

from seamline import registry
from seamline.domain.errors import SeamlineError
from seamline.platform.host_lease import holder_of, holds
from seamline.stack import programs, supervisor
from seamline.stack.layout import Layout
from seamline.stack.leftovers import StackProcess

PROGRAM = "stream_host"


def is_ready(layout: Layout) -> bool:
    """Whether the process that Supervisor runs, and none before it, holds a pool of streams."""
    pid = supervisor.state(layout, PROGRAM).pid
    try:
        with closing(registry.director()) as director:
            hosts = director.hosts()
    except SeamlineError:
        return False
    return any(host.is_alive and holds(holder_of(host.holder), process=pid) for host in hosts)


def of_airflow(layout: Layout, processes: Iterable[StackProcess]) -> list[StackProcess]:
    """Those that Airflow has started for the same pool while this one was away. Hosts of other pools are its own."""
    arguments = " ".join(programs.stream_host_arguments(layout))
    return [one for one in processes if one.is_detached and one.command.endswith(f" {arguments}")]
