"""The report of one business date, on the terminal or as a file: verdict, completeness, control totals with their
differences, the rows that differ, checks, decision, sign-off and versions.

Exit code 0 only if the cut of the date is clean and published, and stored as the log of acts has it; 1 if it is not, or
if there is none. What is on its way is no fault.
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import date
from pathlib import Path
from zoneinfo import ZoneInfo

from seamline import registry, settings
from seamline.cli.answer import give
from seamline.cli.day import day_of_argument
from seamline.cli.person import person
from seamline.domain.audit import FROM_COMMAND_LINE, Act, Kind, Subject
from seamline.domain.cut_state import CutState
from seamline.domain.errors import ConfigError
from seamline.domain.masking import Hidden, masked
from seamline.domain.sign_off import SignOff
from seamline.platform import worked
from seamline.platform.store import PlatformStore
from seamline.report import documents, lines, texts
from seamline.report.blocks import Report
from seamline.report.contents import report_of
from seamline.report.files import to_pdf, to_xlsx
from seamline.report.worked import Worked
from seamline.spec.faults import guess
from seamline.spec.levels import declared_levels
from seamline.spec.load import declared_destinations, shown_work
from seamline.spec.sensitive import hidden_columns
from seamline.sync import headline
from seamline.sync.shown_order import by_run, newest_of_date

Levels = Mapping[str, str]
Writer = Callable[[Report, Sequence[CutState], Levels, Worked, Sequence[SignOff]], bytes]
_TEXT = "text"
_WRITERS: Mapping[str, Writer] = {
    _TEXT: lambda report, *_: texts.to_terminal(report).encode(),
    "md": lambda report, *_: texts.to_markdown(report).encode(),
    "json": lambda report, cuts, levels, done, signed: documents.to_text(
        cuts, levels=levels, worked=done, sign_offs=signed, zone=report.zone
    ).encode(),
    "csv": lambda report, cuts, _, __, signed: lines.to_csv(cuts, (), zone=report.zone, sign_offs=signed).encode(),
    "xlsx": lambda report, *_: to_xlsx(report),
    "pdf": lambda report, *_: to_pdf(report),
}
_NO_TEXT = ("xlsx", "pdf")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync")
    parser.add_argument("--date", required=True, metavar="DATE", help="business date, as 2026-11-19")
    parser.add_argument("--version", type=int, help="the take that published this version; left out: the newest take")
    parser.add_argument("--format", choices=list(_WRITERS), help="left out: by the name of FILE, else text")
    parser.add_argument("--reveal", action="store_true", help="show values of sensitive columns, which are masked else")
    parser.add_argument("--reason", default="", metavar="TEXT", help="why; needed for --reveal, and entered in the log")
    parser.add_argument("--output", type=Path, metavar="FILE", help="left out: the terminal")


def run(args: argparse.Namespace) -> int:
    day = day_of_argument(args.date)
    kind = args.format or ("json" if args.json and args.output is None else _kind_of(args.output))
    if args.json and args.output is None and kind != "json":
        raise ConfigError(f"{kind} is no JSON", hint="leave out --format or --json, or write into a file by --output")
    if args.reveal and not args.reason.strip():
        raise ConfigError("values are not revealed without a reason", hint='--reason "what you need them for"')
    with closing(registry.platform()) as store:
        takes = _takes(store, args.sync, day)
        takes = _revealed(takes, args.sync, day, args.reason) if args.reveal else masked(takes, _hidden)
        cuts = _chosen(args.sync, takes, day, args.version)
        levels = declared_levels(settings.load().declarations, args.sync)
        done, signed = _worked(store, args.sync, cuts), _signed(args.sync, day)
        report = _report(store, args.sync, day, cuts, takes, levels, done, signed)
    if args.json:
        give(args, documents.to_json(cuts, (), levels=levels, worked=done, sign_offs=signed, zone=report.zone))
    if args.output is not None or not args.json:
        _put(_WRITERS[kind](report, cuts, levels, done, signed), report, kind, args.output)
    return 0 if report.verdict in headline.WELL else 1


def _kind_of(output: Path | None) -> str:
    suffix = output.suffix.removeprefix(".") if output else ""
    return suffix if suffix in _WRITERS else _TEXT


def _takes(store: PlatformStore, sync: str, day: date) -> Sequence[CutState]:
    """Every take of the date, the newest first. ConfigError for a sync that nobody declares and nothing is kept of."""
    declarations = settings.load().declarations
    takes = by_run(store.takes(sync, day), declared_destinations(declarations, sync))
    known = sorted(file.stem for file in (declarations / "syncs").glob("*.yaml"))
    if not takes and sync not in known:
        raise ConfigError(f"there is no sync `{sync}`", hint=guess(sync, known))
    return takes


def _hidden(sync: str) -> Hidden:
    return hidden_columns(settings.load().declarations, sync)


def _revealed(takes: Sequence[CutState], sync: str, day: date, reason: str) -> Sequence[CutState]:
    """As they are stored, once that is entered."""
    act = Act(Kind.REVEALED, Subject(sync, "", day), {"reason": reason}, person(), FROM_COMMAND_LINE)
    with closing(registry.audit()) as log:
        log.enter(act)
    return takes


def _chosen(sync: str, takes: Sequence[CutState], day: date, version: int | None) -> Sequence[CutState]:
    """The newest take, or the one that published the version, in each destination."""
    if version is None:
        return newest_of_date(takes, declared_destinations(settings.load().declarations, sync))
    chosen = [one for one in takes if one.publication.version == version]
    if not chosen:
        there = sorted({one.publication.version for one in takes if one.publication.version is not None})
        known = f"{day} has {', '.join(map(str, there))}" if there else f"nothing is published of {day}"
        raise ConfigError(f"there is no version {version} of {day}", hint=known)
    return chosen


def _worked(store: PlatformStore, sync: str, cuts: Sequence[CutState]) -> Worked:
    """What people have done about the breaks of these takes."""
    bounds = shown_work(settings.load().declarations, sync).ages
    found = [cut.found for cut in cuts if cut.found]
    with closing(registry.work()) as work, closing(registry.tolerances()) as tolerances:
        return worked.read(sync, found, found, bounds=bounds, store=store, work=work, tolerances=tolerances)


def _signed(sync: str, day: date) -> Sequence[SignOff]:
    """What of the date is signed."""
    with closing(registry.signatures()) as signatures:
        return signatures.of_date(sync, day)


def _report(
    store: PlatformStore,
    sync: str,
    day: date,
    cuts: Sequence[CutState],
    takes: Sequence[CutState],
    levels: Levels,
    done: Worked,
    signed: Sequence[SignOff],
) -> Report:
    guarantees = {one: store.run(one).plan.guarantee for one in {cut.run_id for cut in cuts}}
    zone = ZoneInfo(store.timezone(sync))
    return report_of(
        sync,
        cuts,
        about=day,
        takes=takes,
        zone=zone,
        guarantees=guarantees,
        levels=levels,
        worked=done,
        sign_offs=signed,
    )


def _put(content: bytes, report: Report, kind: str, output: Path | None) -> None:
    if output is None:
        if kind in _NO_TEXT and sys.stdout.isatty():
            raise ConfigError(f"{kind} is nothing for a terminal", hint="--output FILE writes it into a file")
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        return
    try:
        output.write_bytes(content)
    except OSError as exc:
        cure = "name a file in a folder that is there"
        raise ConfigError(f"{output} cannot be written: {exc.strerror}", hint=cure) from exc
    sys.stdout.write(f"{report.verdict}  {report.subject}: written to {output}\n")
