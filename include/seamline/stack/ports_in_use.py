"""Who has a port that the stack needs: told before anything starts."""

import psutil

from seamline.domain.errors import ConfigError
from seamline.stack import leftovers
from seamline.stack.components import Component
from seamline.stack.layout import Layout


def require_free(components: tuple[Component, ...], layout: Layout) -> None:
    """Refuse to start while another process listens on a port of these components. All of them are named at once."""
    owners = _listeners()
    ours = {one.pid for one in leftovers.processes(layout)}
    taken = []
    for part in components:
        for what, port in part.ports(layout.settings.ports).items():
            if port in owners and owners[port] not in ours:
                taken.append(f"{port} ({what}) is taken by {_name(owners[port])}")
    if taken:
        raise ConfigError(
            "Ports are taken:\n  " + "\n  ".join(taken),
            hint="end that process, or choose other ports: SEAMLINE_PORT_BASE=22000 ./seamline up",
        )


def _listeners() -> dict[int, int]:
    """Port → pid of the process that listens on it; pid 0 where this user may not know."""
    found: dict[int, int] = {}
    for one in psutil.net_connections(kind="tcp"):
        if one.laddr and one.status == psutil.CONN_LISTEN:
            found[one.laddr.port] = one.pid or 0
    return found


def _name(pid: int) -> str:
    if pid == 0:
        return "a process of another user"
    try:
        return f"pid {pid}: {' '.join(psutil.Process(pid).cmdline())[:160]}"
    except psutil.Error:
        return f"pid {pid}"
