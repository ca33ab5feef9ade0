"""The use cases of onboarding with the adapters that a plan names. Clients are imported while a task runs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from seamline import settings
from seamline.domain.errors import SeamlineError, TransientError
from seamline.domain.ledger import LedgerRow
from seamline.domain.row_transform import Analysed, RowTransform
from seamline.domain.runs import SyncState
from seamline.plan.model import DestinationPlan, Run, SyncPlan
from seamline.ports import Commit, Problem, Survey
from seamline_airflow import parts

# Of a plan and what is known to be wrong already: what is wrong with its live tables.
Misfits = Callable[[SyncPlan, Sequence[Problem]], Sequence[Problem]]


def preflight(
    plan: SyncPlan, *, beside: Sequence[DestinationPlan] = (), misfits: Misfits | None = None
) -> tuple[SyncPlan, Sequence[Problem]]:
    """The plan with the source's catalogue, also into the destinations `beside` its own, and every problem: of the
    declarations, each with file and line, of the source, the capture and all of these destinations. A plan without a
    catalogue comes only beside a fatal problem."""
    from seamline import analysis, registry
    from seamline.plan.compile import compile_plan
    from seamline.spec.faults import DeclarationsInvalid
    from seamline.spec.load import load_sync

    with parts.source(plan) as source:
        found = source.survey([table.name for table in plan.tables])
        problems = list(source.preflight(found.tables))
    everywhere = replace(plan, destinations=(*plan.destinations, *beside))
    made, mistakes = analysis.analysed(everywhere, found)
    problems += [one.problem for one in mistakes]
    if plan.streamed.destinations:
        problems += _of_capture(plan, behind=problems)
    whole = _with_definitions(everywhere, found, made)
    for destination in whole.destinations:
        problems += registry.destination_problems(whole, destination.name)
    if misfits is not None:
        problems += misfits(whole.into(plan.destination_names), problems)
    declared = load_sync(settings.load().declarations / "syncs" / f"{plan.sync}.yaml")
    try:
        compiled = compile_plan(declared, plan.sync, found, transforms=made)
        return compiled.into(everywhere.destination_names), problems
    except DeclarationsInvalid as exc:
        return plan, [*(Problem(fault.place_and_cause, fault.cure) for fault in exc.faults), *problems]


def preflight_of_reconcile_only(plan: SyncPlan) -> tuple[SyncPlan, Sequence[Problem]]:
    """The plan of a sync that only compares, with the source's catalogue, and the problems of its declaration. What a
    destination has otherwise is a break of its table, and nothing to refuse the others for."""
    from seamline import registry
    from seamline.plan.compile import compile_plan
    from seamline.spec.faults import DeclarationsInvalid
    from seamline.spec.load import load_sync

    for destination in plan.destinations:
        registry.separate_sides(plan, destination.name)
    with parts.source(plan) as source:
        found = source.survey([table.name for table in plan.tables])
    declared = load_sync(settings.load().declarations / "syncs" / f"{plan.sync}.yaml")
    try:
        return compile_plan(declared, plan.sync, found), ()
    except DeclarationsInvalid as exc:
        return plan, [Problem(fault.place_and_cause, fault.cure) for fault in exc.faults]


def misfits(plan: SyncPlan, behind: Sequence[Problem], *, state: SyncState | None) -> Sequence[Problem]:
    """All live tables of the plan's destinations that would not take its load, with the way out that the sync has now.
    `behind`: what is known to be wrong already."""
    from seamline import registry
    from seamline.kinds.live_columns import of_a_sync_on_its_way, of_an_enabled_sync

    found: list[Problem] = []
    for one in plan.streamed.destinations:
        try:
            mine = registry.misfits(plan, one.name)
        except SeamlineError:
            if any(problem.is_fatal for problem in behind):
                continue
            raise
        is_enabled = state is SyncState.ENABLED
        found += of_an_enabled_sync(plan.sync, one.name, mine) if is_enabled else of_a_sync_on_its_way(one.name, mine)
    return found


def _with_definitions(plan: SyncPlan, found: Survey, made: Analysed) -> SyncPlan:
    """For checks of each table by itself, also beside tables that cannot be kept."""
    definitions = {table.name: table for table in found.tables}

    def analysed(table: str, transform: RowTransform | None) -> RowTransform | None:
        return transform and made.get((table, transform.file), transform)

    return replace(
        plan,
        tables=tuple(
            replace(one, table=definitions.get(one.name), transform=analysed(one.name, one.transform))
            for one in plan.tables
        ),
        destinations=tuple(
            replace(one, transforms=tuple((table, analysed(table, own)) for table, own in one.transforms))
            for one in plan.destinations
        ),
    )


def check_source(plan: SyncPlan) -> Sequence[Problem]:
    """Every problem of a source whose tables are as planned, and of its capture: Connect may have come back with
    another connector than the one that was asked at onboarding."""
    with parts.source(plan) as source:
        problems = source.preflight([table.definition for table in plan.tables])
    return [*problems, *_of_capture(plan, behind=problems)]


def _of_capture(plan: SyncPlan, *, behind: Sequence[Problem]) -> Sequence[Problem]:
    from seamline import registry

    try:
        found = (registry.capture_problems, registry.archive_problems, registry.budget_problems)
        return [one for problems in found for one in problems(plan)]
    except TransientError:
        # What ends the step is known already, and its cure need not wait for Connect to come back.
        if any(problem.is_fatal for problem in behind):
            return ()
        raise


def ledgers(plan: SyncPlan) -> dict[str, LedgerRow | None]:
    """What each destination says of this sync's stream."""
    found: dict[str, LedgerRow | None] = {}
    for destination in plan.destinations:
        with parts.sink(plan, destination.name) as sink:
            found[destination.name] = sink.read_ledger(plan.stream_id(destination.name))
    return found


def ensure_capture(run: Run) -> Mapping[str, Any]:
    from seamline import registry
    from seamline.adapters.connect.debezium_capture import open_capture, open_topics
    from seamline.sync import capture_lifecycle

    plan = run.plan
    with parts.source(plan) as source, parts.capture_registry() as carried:
        state = capture_lifecycle.ensure_capture(
            plan,
            registry=carried,
            connect=open_capture(plan.source),
            topics=open_topics(plan.source),
            source=source,  # type: ignore[arg-type]
            open_log=lambda: registry.log_reader(plan),
            failpoints=registry.failpoints(),
        )
    return {
        "connector": state.connector,
        "topic": state.topic,
        "topic_id": state.topic_id,
        "generation": state.generation,
        "tables": list(state.tables),
        "changed": state.changed,
    }


def publish(run: Run, records: Any) -> Mapping[str, str]:
    """Publish in every destination, then let the log go; the position by destination. An error of one is raised behind
    the others. A repeat finds done what is done."""
    from seamline.sync import onboard

    def into(destination: str) -> Commit:
        with parts.sink(run.plan, destination) as sink:
            return onboard.publish(run, destination, sink=sink)

    positions = onboard.publish_each(run, records, into)
    with parts.pruning_holds() as holds:
        onboard.let_log_go(run, holds)
    return positions
