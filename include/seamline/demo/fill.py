"""Fill the demo bank, once: `python -m seamline.demo.fill` in a container, where `./seamline demo` is not."""

import argparse
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from seamline.adapters import connections
from seamline.demo import bank
from seamline.demo.writers import TIMEZONE

SIZES = {"full": bank.FULL, "small": bank.SMALL}


def fill_bank(size: bank.BankSize, *, timezone: str, say: Callable[[str], None]) -> None:
    """Fill it through the connection `bank_app`. One that is filled already is left as its writers left it."""
    session = bank.connect(connections.resolve("bank_app"))
    try:
        is_new = bank.fill(session, size, now=datetime.now(UTC), timezone=timezone, progress=say)
    finally:
        session.close()
    say("the bank is filled" if is_new else "the bank is there already, as its writers left it")


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(prog="python -m seamline.demo.fill", description=__doc__)
    parser.add_argument("--size", choices=sorted(SIZES), default="full", help="how much the bank holds at first")
    given = parser.parse_args(arguments)
    fill_bank(SIZES[given.size], timezone=TIMEZONE.key, say=lambda line: print(line, flush=True))


if __name__ == "__main__":
    main(sys.argv[1:])
