"""What servers deny of declarations: tables, columns, rights and logins, and who may sign."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from seamline import analysis, registry
from seamline.adapters.connections import known_ids
from seamline.cli.online_night import asks_the_source, faults_of_nights
from seamline.domain.compared_tables import unlike
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.row_transform import Analysed, RowTransform
from seamline.kinds.live_columns import cure_in_any_state
from seamline.plan.compile import compile_plan
from seamline.plan.model import SyncPlan
from seamline.ports import Problem, Survey
from seamline.spec.checks import unknown_connection
from seamline.spec.document import Path_
from seamline.spec.faults import DeclarationsInvalid, Fault, guess
from seamline.spec.load import Declarations
from seamline.stack.airflow_users import known_users
from seamline.stack.layout import Layout

_CONNECTION: Path_ = ("connection",)
# Hears what is asked now, before the answer is waited for.
OnStep = Callable[[str], None]


@dataclass(slots=True)
class Answers:
    """`faults`: what is wrong, each with its place and cure. `notes`: what preflight would report and go on, and what
    could not be asked from here."""

    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, other: "Answers") -> None:
        """What is known already is not said again: several syncs may have one source."""
        self.faults += [one for one in other.faults if one not in self.faults]
        self.notes += [one for one in other.notes if one not in self.notes]


def ask(declarations: Declarations, name: str, layout: Layout, *, on_step: OnStep = lambda _: None) -> Answers:
    """About one sync: its source, each destination and Airflow's users, all that answer. Nothing is changed there."""
    plan, answers = compile_plan(declarations, name), Answers()
    of_servers = _of_source if plan.reconcile_only is None else _of_both_sides
    answers.add(of_servers(declarations, plan, lambda text: on_step(f"{name}: {text}")))
    answers.add(_of_approvers(declarations, name, layout))
    return answers


def _of_source(declarations: Declarations, plan: SyncPlan, on_step: OnStep) -> Answers:
    """What the source says of the tables, and then what the destinations say of them as they are there."""
    answers, survey, made = Answers(), Survey(()), dict[tuple[str, str], RowTransform]()
    try:
        on_step(_asks_for_tables("source", plan.source.name, plan))
        source = registry.source(plan)
        survey = source.survey([table.name for table in plan.tables])
        if any(one.job for one in plan.derived) or any(plan.transforms_at(one) for one in plan.destination_names):
            on_step("lets Spark analyse its transforms")
        answers.add(_of_transforms(plan, survey, made))
        answers.add(_of_tables(declarations, plan, survey, made))
        on_step(f"asks source {plan.source.name} for rights and settings")
        problems = (*source.preflight(survey.tables), *registry.budget_problems(plan))
        answers.add(_of_problems(declarations, plan, problems))
        if asks_the_source(plan):
            on_step(f"asks source {plan.source.name} by what its nights know that a day is closed")
        answers.faults += faults_of_nights(declarations, plan, source)
    except SeamlineError as exc:
        unknown = list(_unknown_connections(declarations, plan)) if isinstance(exc, ConfigError) else []
        answers.faults += unknown or [declarations.source_fault(plan.source.name, _CONNECTION, exc.message, exc.hint)]
    places = {table: place for place, table in _places(declarations, plan)}
    for destination in plan.destinations:
        on_step(f"asks destination {destination.name} for rights, settings and the tables that are there")
        held = _with_definitions(plan, destination.name, survey, made)
        answers.add(_of_destination(declarations, held, destination.name, places))
    return answers


def _unknown_connections(declarations: Declarations, plan: SyncPlan) -> Iterator[Fault]:
    """Of a source's roles, at the place and in the words of `validate`."""
    known, written = known_ids(), declarations.source_documents.get(plan.source.name)
    roles = {"connection": plan.source.reader, "capture_connection": plan.source.capture}
    for key, connection in {**roles, "marker_connection": plan.source.marker}.items():
        if connection and connection not in known:
            place: Path_ = (key,) if written is not None and (key,) in written.lines else _CONNECTION
            yield declarations.source_fault(plan.source.name, place, *unknown_connection(connection, known))


def _asks_for_tables(side: str, name: str, plan: SyncPlan) -> str:
    return f"asks {side} {name} for {len(plan.tables)} table{'' if len(plan.tables) == 1 else 's'}"


def _of_both_sides(declarations: Declarations, plan: SyncPlan, on_step: OnStep) -> Answers:
    """Of a sync that only compares: whether both sides have the tables, and whether their columns can be compared."""
    answers, survey = Answers(), Survey(())
    names = [table.name for table in plan.tables]
    try:
        on_step(_asks_for_tables("source", plan.source.name, plan))
        survey = registry.source(plan).survey(names)
        answers.add(_of_tables(declarations, plan, survey, {}))
    except SeamlineError as exc:
        answers.faults.append(declarations.source_fault(plan.source.name, _CONNECTION, exc.message, exc.hint))
    for destination in plan.destinations:
        try:
            on_step(_asks_for_tables("destination", destination.name, plan))
            _, other = registry.separate_sides(plan, destination.name)
            answers.add(_of_comparison(declarations, plan, destination.name, survey, other.survey(names)))
        except SeamlineError as exc:
            answers.faults.append(declarations.destination_fault(destination.name, _CONNECTION, exc.message, exc.hint))
    return answers


def _of_comparison(
    declarations: Declarations, plan: SyncPlan, destination: str, mine: Survey, theirs: Survey
) -> Answers:
    answers = Answers()
    here, there = ({table.name: table for table in survey.tables} for survey in (mine, theirs))
    for place, name in _places(declarations, plan):
        faults = [(one.what, one.cure) for one in theirs.problems if one.table == name]
        if name in here and name in there:
            faults += [(why, "Compare a table whose columns hold the same") for why in unlike(here[name], there[name])]
        for what, cure in faults:
            answers.faults.append(declarations.fault(plan.sync, place, f"in destination `{destination}`: {what}", cure))
    return answers


def _of_transforms(plan: SyncPlan, survey: Survey, made: dict[tuple[str, str], RowTransform]) -> Answers:
    """What Spark's analysis says; those that are right are added to `made`. Without any no JVM is started."""
    try:
        found, mistakes = analysis.analysed(plan, survey)
    except TransientError as exc:
        return Answers([], [f"{plan.sync}: its transforms were not analysed: {exc.message}"])
    made.update(found)
    return Answers([one.fault for one in mistakes])


def _of_tables(declarations: Declarations, plan: SyncPlan, survey: Survey, made: Analysed) -> Answers:
    answers = Answers()
    try:
        compile_plan(declarations, plan.sync, survey, transforms=made)
    except DeclarationsInvalid as exc:
        answers.faults += exc.faults
    return answers


def _of_destination(declarations: Declarations, plan: SyncPlan, name: str, places: Mapping[str, Path_]) -> Answers:
    answers = Answers()
    try:
        for problem in registry.destination_problems(plan, name):
            if problem.is_fatal:
                answers.faults.append(declarations.destination_fault(name, _CONNECTION, problem.what, problem.cure))
            else:
                answers.notes.append(f"{problem.what}. {problem.cure}")
        for one in registry.misfits(plan, name):
            what, cure = f"in destination `{name}`: {one.what}", cure_in_any_state(plan.sync, one)
            answers.faults.append(declarations.fault(plan.sync, places[one.table], what, cure))
    except SeamlineError as exc:
        # Where something is wrong with it, that may be why.
        if not answers.faults:
            answers.faults.append(declarations.destination_fault(name, _CONNECTION, exc.message, exc.hint))
    return answers


def _of_problems(declarations: Declarations, plan: SyncPlan, problems: Sequence[Problem]) -> Answers:
    """Each stands at its place in the source's file where it has one, one of a table in the sync's file, others at the
    source's connection."""
    places = {table: place for place, table in _places(declarations, plan)}
    answers = Answers()
    for one in problems:
        if not one.is_fatal:
            answers.notes.append(f"source {plan.source.name}: {one.what}. {one.cure}")
        elif one.place:
            answers.faults.append(declarations.source_fault(plan.source.name, one.place, one.what, one.cure))
        elif one.table in places:
            answers.faults.append(declarations.fault(plan.sync, places[one.table], one.what, one.cure))
        else:
            answers.faults.append(declarations.source_fault(plan.source.name, _CONNECTION, one.what, one.cure))
    return answers


def _places(declarations: Declarations, plan: SyncPlan) -> Iterator[tuple[Path_, str]]:
    """Where the sync's file names the tables that it carries, and what they are called in it."""
    carried = [number for number, entry in enumerate(declarations.sync(plan.sync).tables) if entry.parked is None]
    for number, table in zip(carried, plan.tables, strict=True):
        yield ("tables", number), table.name


def _with_definitions(plan: SyncPlan, destination: str, survey: Survey, made: Analysed) -> SyncPlan:
    """With those tables alone whose columns in the destination are known: not where Spark has refused the transform."""
    definitions = {table.name: table for table in survey.tables}
    held = plan.held_by(destination)
    tables = tuple(
        replace(table, table=definitions[table.name], transform=own and made[table.name, own.file])
        for table in held.tables
        if table.name in definitions and ((own := table.transform) is None or (table.name, own.file) in made)
    )
    return replace(held, tables=tables)


def _of_approvers(declarations: Declarations, name: str, layout: Layout) -> Answers:
    approvers = declarations.sync(name).reconcile.approvers
    if not approvers:
        return Answers()
    users = known_users(layout)
    if not users:
        return Answers([], [f"{name}: Airflow's settings name no users, so its approvers were not looked up"])
    unknown = [(number, one) for number, one in enumerate(approvers) if one not in users]
    return Answers(
        [
            declarations.fault(
                name, ("reconcile", "approvers", number), f"`{one}` is no user of Airflow", guess(one, sorted(users))
            )
            for number, one in unknown
        ]
    )
