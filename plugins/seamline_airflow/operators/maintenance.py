"""The tasks of `seamline__maintenance`: each may be repeated, and says in its log what it did and what it left."""

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

from airflow.sdk import BaseOperator

from seamline.domain.alarms import AlarmKind
from seamline.domain.errors import SeamlineError
from seamline.plan.model import DestinationPlan, SyncPlan
from seamline.sync.audit_round import Round, verify_round
from seamline.sync.cut_expiry import expire_cuts
from seamline.sync.log_pruning import Pruned, PruningTools, log_users, prune_log
from seamline_airflow import parts
from seamline_airflow.errors import task_errors

# Nothing may be deleted of a log: somebody has to look before its disk is full.
LOG_NOT_PRUNED = AlarmKind.LOG_NOT_PRUNED
# Somebody has changed what is stored, or may have: whoever signs has to know it.
RECORD_ALTERED = AlarmKind.RECORD_ALTERED
# Of one look another sync is begun as long as this has not passed.
VERIFY_FOR_S = 120.0
_HOUR_S = 3600
_MIB = 1024 * 1024


def declared_plans(log: Any) -> tuple[SyncPlan, ...]:
    """Of the declarations that are right; the faults of the others are logged, and shown as an import error. Syncs that
    only compare leave nothing to maintain where they read."""
    from seamline.plan.compile import compile_plan
    from seamline.spec.load import load_each
    from seamline_airflow.dag_factory import declarations_folder, declared_syncs

    found = declared_syncs(load_each(declarations_folder()), compile_plan)
    for fault in found.faults:
        log.warning("a declaration does not count: %s", fault)
    return tuple(plan for plan in found.plans if plan.reconcile_only is None)


class PruneLogOperator(BaseOperator):
    """Delete what nobody needs any more of each source's log. One log that cannot be pruned keeps no other."""

    def execute(self, context: Any) -> dict[str, int]:
        from seamline import registry

        deleted: dict[str, int] = {}
        failed: list[SeamlineError] = []
        with task_errors(), ExitStack() as opened, parts.platform() as store:
            platform = opened.enter_context(closing(registry.platform_maintenance()))
            users = log_users(
                declared_plans(self.log),
                platform.wanted_plans(),
                platform.published_plans(),
                cut_off=platform.cut_off(),
            )
            tools = PruningTools(
                registry.log_topics(),
                platform,
                lambda destination: closing(registry.destination_maintenance(destination)),
                registry.log_archive,
            )
            for one in users:
                try:
                    pruned = prune_log(one, tools)
                except SeamlineError as exc:
                    self.log.error("%s: %s", one.source.log_topic, exc)
                    failed.append(exc)
                    continue
                self._report(one.source.name, pruned, store)
                deleted[one.source.name] = pruned.records if pruned else 0
            _end_alarms_of_others(store, {one.source.name for one in users})
            if failed:
                raise failed[0]
        return deleted

    def _report(self, source: str, pruned: Pruned | None, store: Any) -> None:
        if pruned is None:
            self.log.info("source %s has no log topic", source)
            store.end_alarm(LOG_NOT_PRUNED, source)
            return
        for line in in_words(pruned):
            self.log.info("%s", line)
        if pruned.segments:
            self.log.warning(
                "%s: its segments end late, so its space comes back late: %s", pruned.topic, pruned.segments
            )
        reasons = why_kept(pruned)
        for why in reasons:
            self.log.warning("%s: %s", pruned.topic, why)
        if reasons:
            store.raise_alarm(LOG_NOT_PRUNED, source, f"{pruned.topic}: {'; '.join(reasons)}")
        else:
            store.end_alarm(LOG_NOT_PRUNED, source)


class ExpireCutsOperator(BaseOperator):
    """Let the cuts of every declared sync end. Those of a sync that nobody declares any more stay."""

    def execute(self, context: Any) -> dict[str, int]:
        from seamline import registry

        gone: dict[str, int] = {}
        failed: list[SeamlineError] = []
        with task_errors(), closing(registry.platform_maintenance()) as records:
            for plan, destination in _with_destinations(declared_plans(self.log)):
                name = f"{plan.sync}@{destination.name}"
                if plan.nightly is None or destination.no_cuts:
                    continue
                try:
                    with closing(registry.cut_expiry(destination)) as store:
                        found = expire_cuts(plan.sync, destination.name, plan.nightly, store=store, records=records)
                except SeamlineError as exc:
                    self.log.error("%s: %s", name, exc)
                    failed.append(exc)
                    continue
                self.log.info(
                    "%s: %d of %d dates lost %d partitions, %.1f MiB: %s; %d cuts left the list",
                    name,
                    len(found.dates),
                    found.kept,
                    found.partitions,
                    found.size_bytes / _MIB,
                    ", ".join(map(str, found.dates)) or "none was due",
                    found.rows,
                )
                for why in found.left:
                    self.log.warning("%s: %s", name, why)
                gone[name] = found.partitions
            if failed:
                raise failed[0]
        return gone


class ClearDestinationsOperator(BaseOperator):
    """Drop what dead runs have left in every destination that a sync has, or its stream had last."""

    def execute(self, context: Any) -> list[str]:
        from seamline import registry

        failed: list[SeamlineError] = []
        with task_errors(), closing(registry.platform_maintenance()) as platform:
            plans = [*declared_plans(self.log), *platform.wanted_plans().values()]
            # By where it is: other settings of it may have changed since its stream was wanted.
            places = {(one.name, one.connection, one.namespace): one for _, one in _with_destinations(plans)}
            for destination in places.values():
                try:
                    with closing(registry.destination_maintenance(destination)) as opened:
                        gone = opened.let_go()
                except SeamlineError as exc:
                    self.log.error("destination %s: %s", destination.name, exc)
                    failed.append(exc)
                    continue
                self.log.info(
                    "destination %s: %d staging tables of dead runs, %d orphan files, %d incremental snapshots (%s), %d"
                    " findings that were over",
                    destination.name,
                    gone.staged,
                    gone.orphan_files,
                    len(gone.incremental_snapshots),
                    ", ".join(gone.incremental_snapshots) or "none",
                    gone.findings,
                )
                for exc in gone.failed:
                    self.log.error("destination %s: %s", destination.name, exc)
                failed += gone.failed
                if gone.orphans_kept:
                    self.log.warning(
                        "destination %s: files that nothing names stay: %s", destination.name, gone.orphans_kept
                    )
            if failed:
                raise failed[0]
        return [name for name, _, _ in places]


class ClearRecordsOperator(BaseOperator):
    """Delete rows of the platform database that nobody asks for any more, then anchor the log of acts."""

    def execute(self, context: Any) -> dict[str, int]:
        from seamline import registry

        with task_errors(), closing(registry.platform_expiry()) as expiry:
            deleted = expiry.expire()
        for what, (rows, days) in deleted.items():
            self.log.info("%d %s, older than %d days", rows, what, days)
        with task_errors():
            self.log.info("%s", parts.anchor_audit())
        return {what: rows for what, (rows, _) in deleted.items()}


class VerifyAuditOperator(BaseOperator):
    """Hold what is stored against the log of acts, and keep an alarm for each sync of which something is not as it was
    entered. Red where something could not be verified: that is no proof, and the alarm is there too."""

    def execute(self, context: Any) -> dict[str, list[str]]:  # noqa: ARG002
        from seamline import registry
        from seamline_airflow.page.reports import syncs

        turn = int(time.time()) // _HOUR_S
        with task_errors(), parts.platform() as store:
            found = verify_round(
                registry.audit_verifier(), syncs(), turn=turn, budget_s=VERIFY_FOR_S, clock=time.monotonic
            )
            self._keep_alarms(found, store)
            if found.errors:
                raise found.errors[0]
        return {"verified": list(found.verified), "altered": list(found.altered), "left": list(found.left)}

    def _keep_alarms(self, found: Round, store: Any) -> None:
        open_ones = {alarm.subject for alarm in store.open_alarms() if alarm.kind == RECORD_ALTERED}
        for sync, text in found.altered.items():
            self.log.error("%s: ALTERED: %s", sync, text)
            store.raise_alarm(RECORD_ALTERED, sync, text)
        for sync, why in found.unknown.items():
            self.log.error("%s: %s", sync, why)
            # One that is open says what was wrong when it could be seen.
            if sync not in open_ones:
                store.raise_alarm(RECORD_ALTERED, sync, why)
        for sync in found.verified:
            self.log.info("%s: all is as it was entered", sync)
            store.end_alarm(RECORD_ALTERED, sync)
        if found.left:
            self.log.info("%d syncs come first at one of the next hours: %s", len(found.left), ", ".join(found.left))


def _with_destinations(plans: Sequence[SyncPlan]) -> Iterator[tuple[SyncPlan, DestinationPlan]]:
    return ((plan, destination) for plan in plans for destination in plan.destinations)


def _end_alarms_of_others(store: Any, known: Collection[str]) -> None:
    """Of a source that no sync has any more."""
    for alarm in store.open_alarms():
        if alarm.kind == LOG_NOT_PRUNED and alarm.subject not in known:
            store.end_alarm(LOG_NOT_PRUNED, alarm.subject)


def in_words(pruned: Pruned) -> Iterator[str]:
    before, now = pruned.begins
    yield (
        f"{pruned.topic}: {pruned.records} records deleted, it now holds offsets {now} to {pruned.ends},"
        f" {pruned.size_bytes / _MIB:.1f} MiB on its broker (before: from {before} on)"
    )
    for need in pruned.floor.needs:
        yield f"  {need}"
    if (archiving := pruned.archiving) and (found := archiving.archived):
        yield (
            f"  its archive holds offsets {found.begins} to {found.ends}, {found.size_bytes / _MIB:.1f} MiB in"
            f" {found.parts} files: {archiving.added} offsets were added, {archiving.expired} files expired"
        )


def why_kept(pruned: Pruned) -> list[str]:
    """Why something of the log stays that nobody may need any more."""
    reasons = [f"nothing is deleted: {why}" for why in pruned.floor.unknown]
    if pruned.archiving and pruned.archiving.trouble:
        reasons.append(f"what is not archived is not deleted: {pruned.archiving.trouble}")
    return reasons


OPERATORS: dict[str, type[BaseOperator]] = {
    "log": PruneLogOperator,
    "cuts": ExpireCutsOperator,
    "destinations": ClearDestinationsOperator,
    "records": ClearRecordsOperator,
    "audit": VerifyAuditOperator,
}
