"""Make or mend the environment and the jars; start nothing."""

import argparse

from seamline import settings
from seamline.stack import boot
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    progress = Progress()
    # The launcher has made the Python environment before it came here.
    boot.prepare(Layout(settings.load()), progress)
    progress.say("environment and jars are in place")
    return 0
