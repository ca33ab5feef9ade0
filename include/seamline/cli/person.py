"""Who is at the command line."""

import os
import pwd
import socket


def person() -> str:
    """Whose process this is, by the system and not by what the environment says; with the host."""
    number = os.getuid()
    try:
        name = pwd.getpwuid(number).pw_name
    except KeyError:
        # A container's user need not have a name.
        name = f"user {number}"
    return f"{name} on {socket.gethostname()}"
