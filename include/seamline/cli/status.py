"""What runs, how far the streams are, and the last verdicts of every sync.

Exit code 0 only if the newest cut is clean and published, no date before it is open, the live tables MATCH (or are left
out for a reason), no onboarding or change of the tables has failed, no stream failed, no alarm is open and what every
sync declares is right. What is on its way is no fault.
"""

import argparse
import sys
from contextlib import closing

from seamline import registry, settings
from seamline.cli import cuts as of_cuts
from seamline.cli import seen, status_document, status_text, watch
from seamline.cli.answer import error_document, give
from seamline.domain.errors import ConfigError, SeamlineError
from seamline.spec.faults import guess
from seamline.spec.load import load_each
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync", nargs="?", default="", help="only this sync")
    parser.add_argument(
        "--missing", action="store_true", help="only which business dates have no published cut, why, and what to do"
    )
    parser.add_argument(
        "--watch",
        action="store_true",
        help="look again and again: lags, work that runs, who waits for whom; ctrl-C ends it",
    )


def run(args: argparse.Namespace) -> int:
    layout = Layout(settings.load())
    names = _names(args, layout)
    if args.watch:
        return watch.run(args, layout, names)
    if args.missing:
        with closing(registry.platform()) as store:
            return of_cuts.show_missing(args, store, names)
    sys.stdout.write(f"{seen.processes(layout)}\n")
    try:
        found = seen.look(layout, names)
    except SeamlineError as error:
        sys.stdout.write(f"\nno verdicts can be shown: {error}\n")
        give(args, {"processes": seen.processes(layout), **error_document(error)})
        return error.exit_code
    sys.stdout.write(status_text.whole(found))
    give(args, {"processes": seen.processes(layout), **status_document.whole(found)})
    return 1 if found.is_red else 0


def _names(args: argparse.Namespace, layout: Layout) -> list[str]:
    """The syncs that are asked for; ConfigError for one that nobody declares."""
    declared = sorted(file.stem for file in load_each(layout.settings.declarations))
    if args.sync and args.sync not in declared:
        raise ConfigError(f"there is no sync `{args.sync}`", hint=guess(args.sync, declared))
    return [args.sync] if args.sync else declared
