"""Print the end of a program's log, or follow it."""

import argparse
import os
import shutil

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.stack import boot
from seamline.stack.components import PROGRAMS
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("program", nargs="?", help=f"one of {', '.join(PROGRAMS)}; left out: where all logs are")
    parser.add_argument("-n", "--lines", type=int, default=40)
    parser.add_argument("-f", "--follow", action="store_true", help="go on printing what is added")


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    if not args.program:
        for name in PROGRAMS:
            print(f"{name:<18} {layout.log_of(name)}")
        return 0
    if args.program not in PROGRAMS:
        raise ConfigError(f"There is no program `{args.program}`", hint=f"known are {', '.join(PROGRAMS)}")
    tail = shutil.which("tail")
    if args.follow and tail:
        os.execv(tail, [tail, "-n", str(args.lines), "-F", str(layout.log_of(args.program))])
    print("\n".join(boot.log_tail(layout, args.program, lines=args.lines)))
    return 0
