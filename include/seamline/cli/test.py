"""Run the tests, layer by layer, against a stack of their own that is gone afterwards.

Every layer is run, whatever became of the one before; the exit code is 0 only if all of them passed. The layer `fault`
takes half an hour and runs only when it is named. Servers are started for the layers that need them, in a data
folder and on ports that nothing else uses, so a running demo is not disturbed.

Where no layer is named, all but `unit` and `integration` run at the same time as these two, in a session of their own;
their lines begin with a bar.
"""

import argparse
import shlex
import sys
from pathlib import Path

from seamline import settings
from seamline.stack.session_beside import SessionBeside
from seamline.stack.test_session import LAYERS, TestSession, chosen_layers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(layer.name for layer in LAYERS)
    named = ", ".join(layer.name for layer in LAYERS if layer.is_by_name_only)
    left_out = f"of {names}; where left out all of them but {named}"
    parser.add_argument("layers", nargs="*", metavar="layer", help=left_out)
    parser.add_argument("--pytest", default="", metavar="ARGS", help='more for pytest, as --pytest="-k cutover -x"')


def run(args: argparse.Namespace) -> int:
    chosen = chosen_layers(args.layers)
    beside = [] if args.layers else [layer for layer in chosen if layer.is_beside]
    here = [layer for layer in chosen if layer not in beside]
    with (
        TestSession(settings.load(), python=Path(sys.executable)) as session,
        SessionBeside(beside, pytest_arguments=args.pytest) as other,
    ):
        outcomes = [session.run(layer, shlex.split(args.pytest)) for layer in here]
        if beside:
            session.stop_servers()
        outcomes += other.outcomes()
    for outcome in outcomes:
        sys.stdout.write(f"{outcome.line}\n")
    return 0 if all(outcome.passed for outcome in outcomes) else 1
