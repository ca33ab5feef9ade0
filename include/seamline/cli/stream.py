"""Pause, resume or restart the streams of a sync.

A paused stream stands still at the end of a transaction and keeps its place; nothing is lost, it lags. Restart wants a
stream anew that had failed for good, once its cause is mended.
"""

import argparse
import sys

from seamline.adapters import registry
from seamline.domain.errors import Refused
from seamline.domain.ledger import StreamId

ORDERS = {"pause": "pauses at its next whole transaction", "resume": "goes on", "restart": "is wanted anew"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=ORDERS)
    parser.add_argument("sync")
    parser.add_argument("destination", nargs="?", default="", help="only the stream into this destination")


def run(args: argparse.Namespace) -> int:
    director = registry.director()
    for stream in _streams(args.sync, args.destination):
        getattr(director, args.order)(stream)
        sys.stdout.write(f"{stream} {ORDERS[args.order]}\n")
    return 0


def _streams(sync: str, destination: str) -> list[StreamId]:
    known = [stream for stream in registry.director().known() if stream.sync == sync]
    found = [stream for stream in known if destination in ("", stream.destination)]
    if not found:
        into = ", ".join(stream.destination for stream in known) or "none"
        wanted = f"{sync} into {destination}" if destination else sync
        raise Refused(
            f"there is no stream of {wanted}", hint=f"streams of {sync}: {into}. Onboarding starts them", sync=sync
        )
    return found
