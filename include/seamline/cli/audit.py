"""Verify the log of acts: its chain of hashes, and that verdicts, decisions and cuts are stored as they were entered.

Ends with 0 only where nothing is wrong. Each fault is a line that names the entry, or the sync, date, destination, run
and table that was changed, removed or inserted.
"""

import argparse
import sys
from contextlib import closing

import psycopg

from seamline import settings
from seamline.platform.audit_anchor import anchor_files
from seamline.platform.audit_check import Checked, check
from seamline.platform.database import open_session, translated

# A chain of millions of entries is one question.
_TIMEOUT_S = 600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    orders = parser.add_subparsers(dest="order", required=True, metavar="verify")
    verify = orders.add_parser("verify", help="check the chain, what is stored, and the anchors")
    verify.add_argument("--sync", default="", help="what is stored of this sync only; the chain is one for all")


def run(args: argparse.Namespace) -> int:
    return _verify(args.sync)


def _verify(sync: str) -> int:
    # Before the view of the database begins: an anchor is younger than the entry that it names.
    anchors = anchor_files(settings.load().audit_anchors)
    try:
        with closing(open_session(application_name="seamline audit", statement_timeout_s=_TIMEOUT_S)) as session:
            checked = check(session, sync=sync, anchors=anchors, report=_fault, note=_note)
    except psycopg.Error as exc:
        raise translated(exc) from exc
    sys.stdout.write("".join(f"{line}\n" for line in summary(checked)))
    return 1 if checked.faults else 0


def summary(checked: Checked) -> list[str]:
    """What was looked at, how far the anchors reach, and the outcome."""
    seen = (
        f"{checked.entries:,} entries, {checked.verdicts:,} verdicts, {checked.decisions:,} decisions,"
        f" {checked.cuts:,} cuts"
    )
    behind = checked.entries - checked.anchored
    anchored = f"anchored up to entry {checked.anchored:,}" if checked.anchored else "no anchor"
    lines = [seen, f"{anchored}; {behind:,} entries stand behind no anchor" if behind > 0 else anchored]
    return [*lines, f"{checked.faults:,} FAULTS" if checked.faults else "nothing is wrong"]


def _fault(line: str) -> None:
    sys.stdout.write(f"FAULT  {line}\n")


def _note(line: str) -> None:
    sys.stderr.write(f"{line}\n")
