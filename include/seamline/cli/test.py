"""Run the tests, layer by layer, against a stack of their own that is gone afterwards.

Every layer is run, whatever became of the one before; the exit code is 0 only if all of them passed. Servers are
started for the layers that need them, in a data folder and on ports that nothing else uses, so a running demo is not
disturbed.
"""

import argparse
import shlex
import sys
from pathlib import Path

from seamline import settings
from seamline.domain.errors import ConfigError
from seamline.spec.faults import guess
from seamline.stack.test_session import LAYERS, TestSession


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(layer.name for layer in LAYERS)
    parser.add_argument("layers", nargs="*", metavar="layer", help=f"of {names}; all of them where left out")
    parser.add_argument("--pytest", default="", metavar="ARGS", help='more for pytest, as --pytest "-k cutover -x"')


def run(args: argparse.Namespace) -> int:
    names = [layer.name for layer in LAYERS]
    for name in args.layers:
        if name not in names:
            raise ConfigError(f"there is no layer `{name}`", hint=guess(name, names))
    chosen = [layer for layer in LAYERS if not args.layers or layer.name in args.layers]
    with TestSession(settings.load(), python=Path(sys.executable)) as session:
        outcomes = [session.run(layer, shlex.split(args.pytest)) for layer in chosen]
    for outcome in outcomes:
        sys.stdout.write(f"{outcome.line}\n")
    return 0 if all(outcome.passed for outcome in outcomes) else 1
