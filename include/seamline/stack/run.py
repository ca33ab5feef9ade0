"""The process that Supervisor starts for each program: clears what an earlier life left, then becomes the program.

Two forms: `python -m seamline.stack.run <program>` and `… --as-server <command…>` for a database server's own tools.
"""

import os
import sys
from collections.abc import Sequence

from seamline import settings
from seamline.stack import account, leftovers, programs
from seamline.stack.layout import Layout


def main(arguments: Sequence[str]) -> None:
    layout = Layout(settings.load())
    if arguments[0] == "--as-server":
        _become_tool(arguments[1:], layout)
    else:
        _become_program(arguments[0], layout)


def _become_tool(command: Sequence[str], layout: Layout) -> None:
    os.chdir(layout.data)
    account.become(account.server_account(), layout)
    os.execvp(command[0], list(command))


def _become_program(name: str, layout: Layout) -> None:
    leftovers.kill_previous_life(layout, name)
    launch = programs.launch(name, layout)
    environment = {**launch.environment, **leftovers.marks(layout, name)}
    os.chdir(launch.folder)
    if launch.is_server:
        account.become(account.server_account(), layout)
    # argv[0] is the full path: without it a Python of a virtual environment forgets that it is one.
    os.execve(launch.command[0], list(launch.command), environment)


if __name__ == "__main__":
    main(sys.argv[1:])
