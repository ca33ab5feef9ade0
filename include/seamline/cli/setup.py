"""Make or mend the environment and the jars; start nothing.

`--with hudi` makes an environment beside it: Spark 3.5 with Hudi, 600 MB, for those who read Hudi tables by Hudi's own
reader. Seamline itself writes and reads them without it.
"""

import argparse

from seamline import settings
from seamline.stack import boot, hudi_environment
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jars", default="", metavar="NAMES", help="only these configurations of jars/ivy.xml")
    said = "also an environment of its own, with Hudi and its Spark (600 MB)"
    parser.add_argument("--with", dest="beside", choices=["hudi"], default="", help=said)


def run(args: argparse.Namespace) -> int:
    progress = Progress()
    # The launcher has made the Python environment before it came here.
    names = [name for name in args.jars.replace(",", " ").split() if name]
    layout = Layout(settings.load())
    boot.prepare(layout, progress, configurations=names)
    progress.say("environment and jars are in place")
    if args.beside:
        made = hudi_environment.prepare(layout, progress)
        progress.say(f"Hudi's environment is in place: {made.python} with {made.jar}")
    return 0
