"""Verify the log of acts, or export the evidence of a business date.

`verify` checks the chain of hashes, and that verdicts, decisions, cuts, signatures and files of breaks are stored as
they were entered. It ends with 0 only where nothing is wrong; each fault is a line that names the entry, or the sync,
date, destination, run and table that was changed, removed or inserted. `export` writes a folder that verifies itself
with Python alone. `signed` checks the signatures of an `export.json` of the page, and asks no server.
"""

import argparse
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from datetime import date
from pathlib import Path
from typing import Any

import psycopg

from seamline import registry
from seamline.adapters.signing import read_signed, verifier_of
from seamline.cli.answer import give
from seamline.cli.person import person
from seamline.domain.audit import FROM_COMMAND_LINE, Act, Kind, Subject
from seamline.domain.errors import ConfigError
from seamline.domain.phrase import counted
from seamline.platform.audit import append
from seamline.platform.audit_check import Checked, check
from seamline.platform.audit_export import Exported, export
from seamline.platform.database import Session, open_session, translated

# A chain of millions of entries is one question.
_TIMEOUT_S = 600.0
_EXPORT = "take it as export.json from the report of a date"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    orders = parser.add_subparsers(dest="order", required=True, metavar="verify|export|signed")
    verify = orders.add_parser("verify", help="check the chain, what is stored, and the anchors")
    verify.add_argument("--sync", default="", help="what is stored of this sync only; the chain is one for all")
    evidence = orders.add_parser("export", help="write the evidence of a business date into a folder")
    evidence.add_argument("sync")
    evidence.add_argument("--date", type=date.fromisoformat, required=True, help="as 2026-03-01")
    evidence.add_argument("--output", type=Path, required=True, metavar="DIR", help="a folder that is not there yet")
    signed = orders.add_parser("signed", help="check the signatures of an export.json")
    signed.add_argument("file", type=Path)
    signed.add_argument("--key", type=Path, required=True, metavar="PEM", help="the public key")


def run(args: argparse.Namespace) -> int:
    if args.order == "signed":
        return _signed(args)
    # Before the view of the database begins: an anchor is younger than the entry that it names.
    anchors = registry.audit_anchors()
    with _session() as session:
        if args.order == "export":
            exported = export(session, sync=args.sync, day=args.date, folder=args.output, anchors=anchors)
            _enter(session, exported, Subject(args.sync, "", args.date))
            sys.stdout.write("".join(f"{line}\n" for line in _exported(exported, args.output)))
            give(args, {"folder": str(args.output), **asdict(exported)})
            return 0
        faults: list[str] = []
        checked = check(session, sync=args.sync, anchors=anchors, report=lambda line: _fault(line, faults), note=_note)
    sys.stdout.write("".join(f"{line}\n" for line in summary(checked)))
    give(args, {**asdict(checked), "faults": faults})
    return 1 if checked.faults else 0


def _signed(args: argparse.Namespace) -> int:
    """No server is asked."""
    verifier = verifier_of(args.key)
    verdicts = _verdicts_in(args.file)
    faults: list[str] = []
    for one in verdicts:
        if why := verifier.fault(one):
            day = one.get("business_date") or "live"
            about = f"{one.get('sync')} → {one.get('destination')} {day}, run {one.get('run')}: {why}"
            # What somebody else wrote: no control of a terminal, and no half of a character.
            _fault("".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in about), faults)
    number = len(verdicts)
    sys.stdout.write(f"{number:,} verdicts, {number - len(faults):,} signed by this key as they are\n")
    give(args, {"verdicts": number, "faults": faults})
    return 1 if faults or not number else 0


def _verdicts_in(file: Path) -> list[dict[str, Any]]:
    try:
        found = read_signed(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise ConfigError(f"{file} holds no export that can be checked: {exc}", hint=_EXPORT) from exc
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise ConfigError(f"{file} is no list of verdicts", hint=_EXPORT)
    return found


def _enter(session: Session, exported: Exported, subject: Subject) -> None:
    """Who took it away; the next export of the date shows it."""
    document = {
        "head": exported.head,
        "entries": exported.entries,
        "verdicts": exported.verdicts,
        "files": exported.files,
    }
    append(session, Act(Kind.EXPORTED, subject, document, person(), FROM_COMMAND_LINE))


@contextmanager
def _session() -> Iterator[Session]:
    try:
        with closing(open_session(application_name="seamline audit", statement_timeout_s=_TIMEOUT_S)) as session:
            yield session
    except psycopg.Error as exc:
        raise translated(exc) from exc


def summary(checked: Checked) -> list[str]:
    """What was looked at, how far the anchors reach, and the outcome."""
    seen = ", ".join(
        [
            counted(checked.entries, "entry", "entries"),
            counted(checked.verdicts, "verdict"),
            counted(checked.decisions, "decision"),
            counted(checked.cuts, "cut"),
            counted(checked.signatures, "signature"),
            counted(checked.files, "file"),
        ]
    )
    behind = checked.entries - checked.anchored
    anchored = f"anchored up to entry {checked.anchored:,}" if checked.anchored else "no anchor"
    stand = f"{counted(behind, 'entry stands', 'entries stand')} behind no anchor"
    lines = [seen, f"{anchored}; {stand}" if behind > 0 else anchored]
    return [*lines, counted(checked.faults, "FAULT", "FAULTS") if checked.faults else "nothing is wrong"]


def _exported(exported: Exported, folder: Path) -> list[str]:
    anchored = "which an anchor names" if exported.is_anchored else "which no anchor names yet"
    return [
        f"{counted(exported.entries, 'entry', 'entries')}, {counted(exported.verdicts, 'verdict')} and"
        f" {counted(exported.files, 'file')} are in {folder}",
        f"its chain ends with entry {exported.head:,}, {anchored}",
        f"verify it anywhere: python3 {folder / 'verify.py'}",
    ]


def _fault(line: str, faults: list[str]) -> None:
    faults.append(line)
    sys.stdout.write(f"FAULT  {line}\n")


def _note(line: str) -> None:
    sys.stderr.write(f"{line}\n")
