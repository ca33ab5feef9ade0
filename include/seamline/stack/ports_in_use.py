"""Who has a port that the stack needs: reported before anything starts."""

import psutil

from seamline.domain.errors import ConfigError
from seamline.stack import leftovers
from seamline.stack.components import Component
from seamline.stack.layout import Layout
from seamline.stack.waiting import wait_until

# A process that was just killed keeps its sockets while its memory is given back: a JVM for a second or two.
_DYING_S = 10.0


def require_free(components: tuple[Component, ...], layout: Layout) -> None:
    """Refuse to start while another process listens on a port of these components. All of them are named at once."""
    taken = _taken(components, layout)
    if taken and all(_is_nameless(pid) for pid in taken.values()):
        wait_until(lambda: not _taken(components, layout), timeout_s=_DYING_S)
        taken = _taken(components, layout)
    if taken:
        raise ConfigError(
            "Ports are taken:\n  " + "\n  ".join(f"{what} is taken by {_name(pid)}" for what, pid in taken.items()),
            hint="end that process, or choose other ports: SEAMLINE_PORT_BASE=22000 ./seamline up",
        )


def _taken(components: tuple[Component, ...], layout: Layout) -> dict[str, int]:
    """Port and what it is for → pid of the process that listens there and is not ours."""
    owners = _listeners()
    ours = {one.pid for one in leftovers.processes(layout)}
    return {
        f"{port} ({what})": owners[port]
        for part in components
        for what, port in part.ports(layout.settings.ports).items()
        if port in owners and owners[port] not in ours
    }


def _is_nameless(pid: int) -> bool:
    """Whether the listener is of another user, or about to end."""
    try:
        return pid == 0 or not psutil.Process(pid).cmdline()
    except psutil.Error:
        return True


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
