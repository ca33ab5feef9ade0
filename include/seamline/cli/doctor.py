"""Look at this machine and the stack: what is missing or of the wrong version, and how to mend it."""

import argparse

from seamline import settings
from seamline.stack import checks
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    """Print every finding. Exit code 1 if something is wrong."""
    del args
    worst = 0
    for finding in checks.findings(Layout(settings.load())):
        print(f"{finding.level.value:<6} {finding.what}")
        if finding.cure:
            print(f"       → {finding.cure}")
        if finding.level is checks.Level.WRONG:
            worst = 1
    return worst
