"""Builds adapters from a plan's connection ids. Only composition roots (Spark mains, operators, commands) call it.

Clients are imported when an adapter of theirs is asked for: a Spark worker that streams need not load what a snapshot
needs, and the DAG processor nothing at all.
"""

import importlib
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, cast

from seamline import settings
from seamline.adapters.logins import Logins
from seamline.domain.errors import ConfigError
from seamline.kinds.bulk import (
    BulkRead,
    CopyTasks,
    OpenedSource,
    OpenReaders,
    OpenSource,
    TableReaders,
    Wanted,
)
from seamline.plan.model import DestinationPlan, SourcePlan, SyncPlan
from seamline.platform.capture import PlatformCaptureRegistry, PlatformPruningHolds
from seamline.platform.database import Database
from seamline.platform.expiry import PlatformExpiry
from seamline.platform.maintenance import PlatformMaintenance
from seamline.platform.origins import PlatformOrigins
from seamline.platform.store import PlatformStore
from seamline.platform.streams import PlatformStreamDirector
from seamline.ports import CaptureProbe, Failpoints, LogReader, Problem, ReadView, SchemaGuard, Sink, Source

# Per kind of source or destination: `module:function` of its opener. A new kind is a line here.
_SOURCES = {
    "mariadb": "seamline.sources.mariadb.source:open_source",
    "postgres": "seamline.sources.postgres.source:open_source",
}
_SOURCES_FOR_TASKS = {
    "mariadb": "seamline.sources.mariadb.parallel_snapshot:open_source_for_tasks",
    "postgres": "seamline.sources.postgres.bulk:open_source_for_tasks",
}
_TABLE_READERS = {
    "mariadb": "seamline.sources.mariadb.readers:open_readers",
    "postgres": "seamline.sources.postgres.bulk:open_readers",
}
_GRANT_SCRIPTS = {
    "mariadb": "seamline.sources.mariadb.grants:script_of",
    "postgres": "seamline.sources.postgres.grants:grant_script",
}
_READER_LOOKS = {"mariadb": "seamline.sources.mariadb.readers:why_it_hangs"}
_SCHEMA_GUARDS = {"postgres": "seamline.sources.postgres.schema_guard:open_guard"}
_WITNESSES = {"postgres": "seamline.sources.postgres.witness:open_witness"}
_SINKS = {"postgres": "seamline.sinks.postgres.sink:open_sink"}
_DESTINATION_PROBLEMS = {"postgres": "seamline.sinks.postgres.preflight:problems"}
_DESTINATION_VIEWS = {"postgres": "seamline.databases.postgres.read:open_live_views"}
_PROBES = {
    "mariadb": "seamline.sources.mariadb.probes:open_probes",
    "postgres": "seamline.sources.postgres.probes:open_probes",
}
_PROBED = {"postgres": "seamline.sinks.postgres.probed:open_probed"}
_CAPTURE_PROBLEMS = "seamline.adapters.connect.capture:problems"
_CAPTURE_PROBE = "seamline.adapters.connect.capture:open_probe"
_CUTS = {"postgres": "seamline.sinks.postgres.cuts:open_cuts"}
_MAINTENANCE = {"postgres": "seamline.sinks.postgres.maintenance:open_maintenance"}
_CUT_EXPIRY = {"postgres": "seamline.sinks.postgres.cut_expiry:open_cut_expiry"}
_LOG_TOPICS = "seamline.adapters.kafka.topics:open_log_topics"
_LOG_READER = "seamline.adapters.kafka.log_reader:open_log_reader"


def source(plan: SyncPlan) -> Source:
    """`open_source(source_plan: SourcePlan) -> Source`."""
    return cast(Source, _opener(_SOURCES, plan.source.kind, "source")(plan.source))


def source_for_tasks(source: SourcePlan, wanted: Wanted, tasks: CopyTasks) -> AbstractContextManager[OpenedSource]:
    """The source open at one position, here and for tasks that copy."""
    return cast(OpenSource, _opener(_SOURCES_FOR_TASKS, source.kind, "source"))(source, wanted, tasks)


def table_readers(source: SourcePlan, reads: Sequence[BulkRead], *, barrier: str, participant: int) -> TableReaders:
    """What a task reads tables of this source with."""
    return cast(OpenReaders, _opener(_TABLE_READERS, source.kind, "source"))(
        source, reads, barrier=barrier, participant=participant
    )


def grant_script(source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str:
    """`script(source: SourcePlan, tables: Sequence[str], *, logins: Logins) -> str`: what its owner runs once."""
    return str(_opener(_GRANT_SCRIPTS, source.kind, "source")(source, tables, logins=logins))


def why_a_reader_hangs(source: SourcePlan, waits_for: str) -> str:
    """`why_it_hangs(source: SourcePlan, waits_for: str) -> str`; "" where a task's readers are looked after by their
    own process."""
    place = _READER_LOOKS.get(source.kind)
    return str(_function(place)(source, waits_for)) if place and waits_for else ""


def schema_guard(plan: SyncPlan) -> SchemaGuard | None:
    """`open_guard(plan: SyncPlan, seen: SeenOrigins) -> SchemaGuard`; None where the log itself reports every change of
    a table's schema."""
    place = _SCHEMA_GUARDS.get(plan.source.kind)
    return cast(SchemaGuard, _function(place)(plan, PlatformOrigins(Database(), plan.sync))) if place else None


def catalogue_witness(source: SourcePlan) -> Any:
    """`open_witness(source: SourcePlan)`: what its heartbeats say of its catalogue (`sync.source_watch.Witness`); None
    where the log itself reports every change of a table's schema."""
    place = _WITNESSES.get(source.kind)
    return _function(place)(source) if place else None


def sink(plan: SyncPlan, destination_name: str) -> Sink:
    """`open_sink(plan: SyncPlan, destination: DestinationPlan) -> Sink`."""
    destination = plan.destination(destination_name)
    return cast(Sink, _opener(_SINKS, destination.kind, "destination")(plan, destination))


def log_reader(plan: SyncPlan) -> LogReader:
    """`open_log_reader(plan: SyncPlan) -> LogReader`."""
    return cast(LogReader, _function(_LOG_READER)(plan))


def capture_probe(plan: SyncPlan) -> CaptureProbe:
    """`open_probe(source_plan: SourcePlan) -> CaptureProbe`."""
    return cast(CaptureProbe, _function(_CAPTURE_PROBE)(plan.source))


def capture_problems(plan: SyncPlan) -> tuple[Problem, ...]:
    """`problems(source_plan: SourcePlan) -> Sequence[Problem]`: what keeps the capture from running at all."""
    return tuple(_function(_CAPTURE_PROBLEMS)(plan.source))


def destination_problems(plan: SyncPlan, destination_name: str) -> tuple[Problem, ...]:
    """`problems(plan: SyncPlan, destination: DestinationPlan) -> Sequence[Problem]`."""
    destination = plan.destination(destination_name)
    return tuple(_opener(_DESTINATION_PROBLEMS, destination.kind, "destination")(plan, destination))


def destination_views(plan: SyncPlan, destination_name: str, count: int) -> list[ReadView]:
    """`open_live_views(plan: SyncPlan, destination: DestinationPlan, count: int) -> Sequence[ReadView]`."""
    destination = plan.destination(destination_name)
    return list(_opener(_DESTINATION_VIEWS, destination.kind, "destination")(plan, destination, count))


def probes(source: SourcePlan) -> Any:
    """`open_probes(source: SourcePlan)`: probe tables of a certificate (`sync.probe_run.ProbeSource`)."""
    return _opener(_PROBES, source.kind, "source for certificates")(source)


def probed(plan: SyncPlan, destination_name: str) -> Any:
    """`open_probed(plan, destination)`: where probes arrive (`sync.probe_run.ProbeDestination`)."""
    destination = plan.destination(destination_name)
    return _opener(_PROBED, destination.kind, "destination for certificates")(plan, destination)


def cut_publisher(plan: SyncPlan, destination_name: str) -> Any:
    """`open_cuts(destination: DestinationPlan)`: publishes cuts there (`sync.cut.CutPublisher`); close it after use."""
    destination = plan.destination(destination_name)
    return _opener(_CUTS, destination.kind, "destination for cuts")(destination)


def destination_maintenance(destination: DestinationPlan) -> Any:
    """`open_maintenance(destination: DestinationPlan)`: its ledgers, and what nobody needs any more there."""
    return _opener(_MAINTENANCE, destination.kind, "destination")(destination)


def cut_expiry(destination: DestinationPlan) -> Any:
    """`open_cut_expiry(destination: DestinationPlan)`: lets its cuts end (`sync.cut_expiry.CutStore`)."""
    return _opener(_CUT_EXPIRY, destination.kind, "destination for cuts")(destination)


def log_topics() -> Any:
    """`open_log_topics()`: the log topics of the one Kafka (`sync.log_pruning.LogTopics`)."""
    return _function(_LOG_TOPICS)()


def platform_expiry() -> PlatformExpiry:
    return PlatformExpiry(Database())


def platform_maintenance() -> PlatformMaintenance:
    return PlatformMaintenance(Database())


def platform() -> PlatformStore:
    return PlatformStore(Database())


def director() -> PlatformStreamDirector:
    return PlatformStreamDirector(Database())


def capture_registry() -> PlatformCaptureRegistry:
    return PlatformCaptureRegistry(Database())


def pruning_holds() -> PlatformPruningHolds:
    return PlatformPruningHolds(Database())


def failpoints() -> Failpoints | None:
    """What this process's environment arms; None is the rule."""
    return cast(
        "Failpoints | None",
        _function("seamline.adapters.failpoints:from_environment")(settings.process_environment()),
    )


def _opener(table: dict[str, str], kind: str, what: str) -> Any:
    if kind not in table:
        raise ConfigError(f"there is no {what} of kind {kind!r} yet", hint=f"known kinds: {', '.join(sorted(table))}")
    return _function(table[kind])


def _function(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)
