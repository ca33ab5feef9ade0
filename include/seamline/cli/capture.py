"""Start the capture of a source again, or give it up.

`start`: where it was stopped, by a person or at its byte limit; it goes on from its place with the tables that it
carries. `reset`: where it cannot go on, because its log was purged, the source restored or moved, its slot lost.
Connector, place, log topic and slot are deleted. The next onboarding of a sync of this source begins a new capture.
Until its own onboarding the stream of each sync stands still, and its tables stay as they are.
"""

import argparse
import sys
from contextlib import closing
from dataclasses import replace
from typing import cast

from seamline import registry, settings
from seamline.adapters.connect.debezium_capture import open_capture, open_topics
from seamline.cli.answer import give
from seamline.domain.errors import ConfigError, Refused
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.spec.faults import guess
from seamline.spec.load import load_declarations
from seamline.sync.capture_lifecycle import CaptureSource, ensure_capture, reset_capture
from seamline.sync.capture_watch import CAPTURE_FAILED, CAPTURE_STOPPED
from seamline.sync.source_watch import SOURCE_ALARMS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("order", choices=["start", "reset"])
    parser.add_argument("source", help="name of the source")
    parser.add_argument("--yes", action="store_true", help="reset; without it only what would be done is said")


def run(args: argparse.Namespace) -> int:
    plans = _plans_of(args.source)
    return _start(plans[0], args) if args.order == "start" else _reset(plans, args)


def _start(plan: SyncPlan, args: argparse.Namespace) -> int:
    connect = open_capture(plan.source)
    if connect.status() is None:
        raise Refused(
            f"there is no capture of {plan.source.name}: none was made yet, or it was given up",
            hint=f"onboard a sync of it: {plan.sync}",
        )
    with closing(registry.capture_registry()) as carried:
        state = ensure_capture(
            replace(plan, tables=()),
            registry=carried,
            connect=connect,
            topics=open_topics(plan.source),
            source=cast("CaptureSource", registry.logged_source(plan)),
            open_log=lambda: registry.log_reader(plan),
        )
    _end_alarms(plan.source.name, CAPTURE_FAILED, CAPTURE_STOPPED)
    sys.stdout.write(f"{state.connector} runs and carries {', '.join(state.tables)}\n")
    give(args, {"source": plan.source.name, "connector": state.connector, "tables": state.tables})
    return 0


def _reset(plans: list[SyncPlan], args: argparse.Namespace) -> int:
    plan = plans[0].source
    syncs = ", ".join(sorted(one.sync for one in plans))
    if not args.yes:
        raise Refused(
            f"this deletes connector {plan.connector} with its place and log topic {plan.log_topic}; to be onboarded"
            f" again: {syncs}",
            hint="nothing was done; add --yes",
        )
    with closing(registry.capture_registry()) as carried:
        reset_capture(
            plan,
            registry=carried,
            connect=open_capture(plan),
            topics=open_topics(plan),
            source=cast("CaptureSource", registry.logged_source(plans[0])),
        )
    _end_alarms(plan.name, *SOURCE_ALARMS)
    sys.stdout.write(f"the capture of {plan.name} is given up; now onboard again: {syncs}\n")
    give(args, {"source": plan.name, "onboard_again": sorted(one.sync for one in plans)})
    return 0


def _end_alarms(source: str, *kinds: str) -> None:
    """They are about the former capture. The stream host raises again what still holds."""
    with closing(registry.platform()) as store:
        for kind in kinds:
            store.end_alarm(kind, source)


def _plans_of(source: str) -> list[SyncPlan]:
    declarations = load_declarations(settings.load().declarations)
    sources = {name: spec.source for name, spec in declarations.syncs.items()}
    if source not in sources.values():
        raise ConfigError(f"no sync has a source `{source}`", hint=guess(source, sorted(set(sources.values()))))
    if not declarations.sources[source].has_log:
        raise ConfigError(f"source `{source}` has no log, so there is no capture", hint="its nights need none")
    return [compile_plan(declarations, name) for name in sources if sources[name] == source]
