"""Stop the local stack of this data folder. The data stays; no process does."""

import argparse

from seamline import settings
from seamline.stack import boot
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    del args
    boot.down(Layout(settings.load()), Progress())
    return 0
