"""Stop the local stack of this data folder. The data stays; no process does."""

import argparse

from seamline import settings
from seamline.cli.answer import give, progress
from seamline.stack import boot
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    boot.down(layout, progress(args))
    give(args, {"data": str(layout.data)})
    return 0
