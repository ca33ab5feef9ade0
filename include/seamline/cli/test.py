"""Run the tests, layer by layer, against a stack of their own that is gone afterwards.

Every layer is run, whatever became of the one before; the exit code is 0 only if all of them passed, and the last lines
name the tests that did not. `browser`, which needs a Chromium, `compose`, `fault` and `soak` run only when they are
named; `compose` ends as "not run", and so not with 0, where no container engine can start. Servers are started for the
layers that need them, in a data folder and on ports that nothing else uses, so a running demo is not disturbed.

Where no layer is named, three sessions run at the same time, each with servers of its own; the lines of the second and
third begin with a number and a bar.
"""

import argparse
import shlex
import sys
from contextlib import ExitStack
from pathlib import Path

from seamline import settings
from seamline.stack.session_beside import SessionBeside
from seamline.stack.test_session import LAYERS, Layer, TestSession, chosen_layers


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(layer.name for layer in LAYERS)
    named = ", ".join(layer.name for layer in LAYERS if layer.is_by_name_only)
    left_out = f"of {names}; where left out all of them but {named}"
    parser.add_argument("layers", nargs="*", metavar="layer", help=left_out)
    parser.add_argument("--pytest", default="", metavar="ARGS", help='more for pytest, as --pytest="-k cutover -x"')


def run(args: argparse.Namespace) -> int:
    chosen = chosen_layers(args.layers)
    sessions: dict[int, list[Layer]] = {}
    for layer in chosen:
        sessions.setdefault(0 if args.layers else layer.beside, []).append(layer)
    here = sessions.pop(0)
    with ExitStack() as ends:
        session = ends.enter_context(TestSession(settings.load(), python=Path(sys.executable)))
        others = [
            ends.enter_context(SessionBeside(layers, number=number, pytest_arguments=args.pytest))
            for number, layers in sessions.items()
        ]
        outcomes = [session.run(layer, shlex.split(args.pytest)) for layer in here]
        if others:
            session.stop_servers()
        outcomes += [outcome for other in others for outcome in other.outcomes()]
    for outcome in outcomes:
        sys.stdout.write("".join(f"{line}\n" for line in outcome.lines))
    return 0 if all(outcome.passed for outcome in outcomes) else 1
