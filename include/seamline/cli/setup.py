"""Make or mend the environment and the jars; start nothing."""

import argparse

from seamline import settings
from seamline.stack import boot
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jars", default="", metavar="NAMES", help="only these configurations of jars/ivy.xml")


def run(args: argparse.Namespace) -> int:
    progress = Progress()
    # The launcher has made the Python environment before it came here.
    names = [name for name in args.jars.replace(",", " ").split() if name]
    boot.prepare(Layout(settings.load()), progress, configurations=names)
    progress.say("environment and jars are in place")
    return 0
