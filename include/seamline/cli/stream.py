"""Pause, resume, restart or forget the streams of a sync.

A paused stream stands still at the end of a transaction and keeps its place; nothing is lost, it lags. Who paused it,
since when and why is shown until it goes on. Restart wants a stream again that had failed for good, once its cause is
mended. Forget is for a stream that is declared no more and has ended: the log keeps nothing for it any longer, so it
comes back by an onboarding. Its tables, its cuts and their reports stay.
"""

import argparse
import sys
from contextlib import closing

from seamline import registry, settings
from seamline.cli.answer import give
from seamline.cli.person import person
from seamline.domain.declared import DeclaredNow
from seamline.domain.errors import ConfigError, Refused
from seamline.domain.ledger import StreamId
from seamline.platform.streams import PlatformStreamDirector
from seamline.spec.declared import declared_now
from seamline.spec.faults import guess
from seamline.spec.load import read_folder

ORDERS = {"pause": "pauses at its next whole transaction", "resume": "goes on", "restart": "is wanted again"}
FORGOTTEN = "is forgotten: the log keeps nothing for it, its tables stay, and an onboarding brings it back"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=[*ORDERS, "forget"])
    parser.add_argument("sync")
    parser.add_argument("destination", nargs="?", default="", help="only the stream into this destination")
    parser.add_argument("--reason", default="", help="why; of a pause also for those who see it stand")


def run(args: argparse.Namespace) -> int:
    if args.reason and args.order == "restart":
        raise ConfigError("a reason belongs to a pause or its end, and is not kept for `restart`", hint="leave it out")
    reason = " ".join(args.reason.split())
    ordered: list[StreamId] = []
    with closing(registry.director()) as director:
        if args.order == "forget":
            return _forget(director, args, reason)
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


def _forget(director: PlatformStreamDirector, args: argparse.Namespace, reason: str) -> int:
    asked = f"{args.sync} into {args.destination}" if args.destination else args.sync
    wanted = {one.stream for one in director.all_wanted()}
    known = [one for one in director.known() if one.sync == args.sync and args.destination in ("", one.destination)]
    ended = [one for one in known if one not in wanted]
    if not ended:
        raise Refused(
            f"there is no stream of {asked} that is declared no more and has ended",
            hint="delete the file of the sync, or take the destination out of it; `./seamline status` says once it has"
            " ended",
            sync=args.sync,
        )
    gone = _undeclared(ended, declared_now(settings.load().declarations))
    if not gone:
        raise Refused(f"{asked} is declared again", hint="its stream goes on by itself within minutes", sync=args.sync)
    for stream in gone:
        director.forget(stream, by=person(), reason=reason)
        sys.stdout.write(f"{stream} {FORGOTTEN}\n")
    give(args, {"order": args.order, "reason": reason, "streams": gone})
    return 0


def _undeclared(ended: list[StreamId], now: DeclaredNow) -> list[StreamId]:
    if now.settled_s is None:
        raise ConfigError(f"nobody knows what is declared: {now.why}", hint="bring the folder of declarations back")
    sources = {one: now.source_of(one) if one.sync in now.syncs else "" for one in ended}
    if unknown := [one for one, source in sources.items() if source is None]:
        raise ConfigError(
            f"whether {unknown[0]} is declared cannot be read from the file of its sync",
            hint="`./seamline validate` says what is wrong in it; a file with another ending than .yaml has to go too",
        )
    return [one for one, source in sources.items() if not source]


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
