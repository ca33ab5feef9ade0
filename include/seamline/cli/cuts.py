"""The published cuts of a sync: version, state, verdict, mode, position, rows, until when each stays, who signed.

With --missing the business dates that have no published cut, each with why and what to do; exit code 1 if one of them
is late.
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import asdict, replace
from datetime import UTC, date, datetime, tzinfo
from typing import Any

from seamline import registry, settings
from seamline.cli.answer import give
from seamline.domain.calendar import moment_in_words, zone
from seamline.domain.cut_keep import PublishedCut, why_kept
from seamline.domain.errors import ConfigError
from seamline.domain.runs import RunKind
from seamline.domain.sign_off import SignOff
from seamline.plan.model import NightlyPlan
from seamline.platform.store import PlatformStore
from seamline.spec.faults import guess
from seamline.spec.load import declared_dates
from seamline.spec.notify import shown_steps
from seamline.sync.missing import SHOWN_MAX, Missing, missing_dates

_HEAD = ("date", "destination", "version", "state", "verdict", "mode", "rows", "position", "kept", "signed by")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("sync")
    parser.add_argument("--missing", action="store_true", help="the business dates without a published cut, and why")


def run(args: argparse.Namespace) -> int:
    with closing(registry.platform()) as store:
        if store.latest_run(args.sync, *RunKind) is None:
            known = sorted(file.stem for file in (settings.load().declarations / "syncs").glob("*.yaml"))
            if args.sync not in known:
                raise ConfigError(f"there is no sync `{args.sync}`", hint=guess(args.sync, known))
        if args.missing:
            return show_missing(args, store, [args.sync])
        give(args, {"sync": args.sync, "cuts": _show_cuts(store, args.sync)})
    return 0


def show_missing(args: argparse.Namespace, store: PlatformStore, syncs: Sequence[str]) -> int:
    """Write the list of these syncs; 1 where any of it is late."""
    now, listed = datetime.now(UTC), dict[str, list[dict[str, Any]]]()
    for sync in syncs:
        found = missing_of(store, sync, now)
        where = zone(store.timezone(sync))
        listed[sync] = missing_document(found, now, where)
        sys.stdout.write(f"{sync}: {counted(found)}\n")
        sys.stdout.writelines(missing_lines(found, now, where))
    give(args, {"missing": listed})
    return int(any(one["is_late"] for found in listed.values() for one in found))


def missing_of(store: PlatformStore, sync: str, now: datetime) -> list[Missing]:
    """By the declarations and the alarms of now."""
    folder = settings.load().declarations
    alarms = [one for one in store.open_alarms() if one.about == sync]
    dates, steps = declared_dates(folder, sync), shown_steps(folder, sync)
    return missing_dates(store, sync, now=now, dates=dates, alarms=alarms, steps=steps)


def missing_document(found: Iterable[Missing], now: datetime, where: tzinfo) -> list[dict[str, Any]]:
    """Moments are in the zone `where`."""
    shown = (replace(one, since=_in(one.since, where), due=_in(one.due, where)) for one in found)
    return [{**asdict(one), "is_late": one.is_late(now)} for one in shown]


def _in(moment: datetime | None, where: tzinfo) -> datetime | None:
    return moment and moment.astimezone(where)


def counted(found: Sequence[Missing]) -> str:
    if not found:
        return "every business date since its first cut has one"
    more = ", and older ones" if len(found) == SHOWN_MAX else ""
    return f"{len(found)} business dates have no published cut{more}"


def missing_lines(found: Iterable[Missing], now: datetime, where: tzinfo) -> Iterable[str]:
    for one in found:
        since = f", since {moment_in_words(one.since, where)}" if one.since else ""
        yield f"  {one.business_date} {one.destination}  {one.word}{since}  ({one.lateness(now)})\n"
        yield f"      {one.why}\n"
        if one.owners:
            yield f"      {one.owners}\n"
        yield f"      → {one.next_step}\n"


def _show_cuts(store: PlatformStore, sync: str) -> list[dict[str, Any]]:
    """Write them; returned by the names of the columns, numbers as such, and None for what is not known."""
    found, newest = store.published_cuts(sync), store.latest_run(sync, *RunKind)
    if not found:
        sys.stdout.write(f"{sync} has no published cut\n")
        return []
    nightly = (newest.plan.nightly if newest else None) or NightlyPlan()
    with closing(registry.signatures()) as signatures:
        signed = {
            (one.destination, one.business_date, one.version): one
            for one in signatures.kept([sync], since=min(one.cut.business_date for one in found))
        }
    cuts = [_cells(one, found, nightly, signed) for one in found]
    lines = [_HEAD, *(tuple(map(_text, cells)) for cells in cuts)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(_HEAD))]
    sys.stdout.writelines(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines
    )
    return [dict(zip(_HEAD, cells, strict=True)) for cells in cuts]


def _text(cell: str | int | None) -> str:
    match cell:
        case None:
            return "-"
        case int():
            return f"{cell:,}"
    return cell


def _cells(
    one: PublishedCut,
    found: Sequence[PublishedCut],
    nightly: NightlyPlan,
    signed: dict[tuple[str, date, int], SignOff],
) -> tuple[str | int | None, ...]:
    cut = one.cut
    mine = [other.cut for other in found if other.cut.destination == cut.destination]
    newest = max(other.version for other in mine if other.business_date == cut.business_date)
    sign = signed.get((cut.destination, cut.business_date, cut.version))
    return (
        cut.business_date.isoformat(),
        cut.destination,
        cut.version,
        "in force" if cut.version == newest else f"superseded by {newest}",
        f"{one.shown.value}{', partial' if cut.partial else ''}",
        one.mode or None,
        one.rows,
        str(cut.position),
        why_kept(cut, mine, nightly.keep, now=datetime.now(UTC)),
        sign.signature.who if sign and sign.signature else None,
    )
