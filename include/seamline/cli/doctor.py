"""Look at this machine and the stack: what is missing or of the wrong version, and how to mend it."""

import argparse

from seamline import settings
from seamline.cli.answer import give
from seamline.stack import checks
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    """Print every finding. Exit code 1 if something is wrong."""
    found: list[checks.Finding] = []
    for finding in checks.findings(Layout(settings.load())):
        found.append(finding)
        print(f"{finding.level.value:<6} {finding.what}")
        if finding.cure:
            print(f"       → {finding.cure}")
    give(args, {"findings": found})
    return int(any(one.level is checks.Level.WRONG for one in found))
