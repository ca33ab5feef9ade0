"""Pause, resume or restart the streams of a sync.

A paused stream stands still at the end of a transaction and keeps its place; nothing is lost, it lags. Who paused it,
since when and why is shown until it goes on. Restart wants a stream again that had failed for good, once its cause is
mended.
"""

import argparse
import sys
from contextlib import closing

from seamline import registry, settings
from seamline.cli.answer import give
from seamline.cli.person import person
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.ledger import StreamId
from seamline.platform.streams import PlatformStreamDirector
from seamline.spec.faults import guess
from seamline.spec.load import read_folder

ORDERS = {"pause": "pauses at its next whole transaction", "resume": "goes on", "restart": "is wanted again"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=ORDERS)
    parser.add_argument("sync")
    parser.add_argument("destination", nargs="?", default="", help="only the stream into this destination")
    parser.add_argument("--reason", default="", help="why; of a pause also for those who see it stand")


def run(args: argparse.Namespace) -> int:
    if args.reason and args.order == "restart":
        raise ConfigError("a reason belongs to a pause or its end, and is not kept for `restart`", hint="leave it out")
    reason = " ".join(args.reason.split())
    ordered: list[StreamId] = []
    with closing(registry.director()) as director:
        for stream in _streams(director, args.sync, args.destination):
            match args.order:
                case "pause":
                    director.pause(stream, by=person(), reason=reason)
                case "resume":
                    director.resume(stream, by=person(), reason=reason)
                case "restart":
                    director.restart(stream, by=person())
            ordered.append(stream)
            sys.stdout.write(f"{stream} {ORDERS[args.order]}\n")
    give(args, {"order": args.order, "reason": reason, "streams": ordered})
    return 0


def _streams(director: PlatformStreamDirector, sync: str, destination: str) -> list[StreamId]:
    known = [stream for stream in director.known() if stream.sync == sync]
    # A destination that was taken out of the sync is meant only by its name: a restart would want its stream again.
    wanted_now = [each.stream for each in director.wanted_of(sync)]
    found = [stream for stream in known if stream.destination == destination] if destination else wanted_now
    if not known and sync not in (declared := read_folder(settings.load().declarations).syncs):
        raise ConfigError(f"there is no sync `{sync}`", hint=guess(sync, sorted(declared)))
    if not found:
        into = ", ".join(stream.destination for stream in known) or "none"
        asked = f"{sync} into {destination}" if destination else sync
        raise Refused(
            f"there is no stream of {asked}", hint=f"streams of {sync}: {into}. Onboarding starts them", sync=sync
        )
    return found
