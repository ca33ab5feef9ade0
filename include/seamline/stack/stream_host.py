"""Whether the local stream host is at work."""

from seamline.adapters import registry
from seamline.adapters.platform.host_lease import holder_of
from seamline.domain.errors import SeamlineError
from seamline.stack import supervisor
from seamline.stack.layout import Layout

PROGRAM = "stream_host"


def is_ready(layout: Layout) -> bool:
    """Whether the process that Supervisor runs, and none before it, holds a pool of streams."""
    pid = supervisor.state(layout, PROGRAM).pid
    try:
        return any(host.is_alive and holder_of(host.holder).process == pid for host in registry.director().hosts())
    except SeamlineError:
        return False
