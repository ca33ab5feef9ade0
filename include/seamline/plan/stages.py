"""The stages of every DAG of a sync, once: the DAG factory builds tasks from this list and `explain` prints it."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from seamline.domain.made_from import LOOKS_ON, MadeFrom
from seamline.domain.staged_cut import CutSource
from seamline.plan.checks import ReconcileOnlyPlan
from seamline.plan.model import DestinationPlan, NightlyPlan, SyncPlan


class RunsIn(StrEnum):
    """Where the work of a stage happens."""

    AIRFLOW = "airflow"  # in the task's own process, seconds
    SPARK = "spark"  # a Spark job that the task launches and follows
    TRIGGER = "trigger"  # a wait without a worker
    PERSON = "person"  # a decision in the Airflow UI


@dataclass(frozen=True, slots=True)
class Stage:
    """One step. `id` is the Airflow task id; `job` the script under `spark_jobs/` where the step is a Spark job."""

    id: str
    title: str
    does: str
    runs_in: RunsIn = RunsIn.AIRFLOW
    job: str = ""


def onboard_stages(plan: SyncPlan) -> tuple[Stage, ...]:
    tables = _counted(len(plan.tables), "table")
    if not plan.streamed.destinations:
        return _onboard_for_cuts_only(tables)
    return (
        Stage(
            "preflight",
            "Check the source and the destinations",
            f"reads the catalogue of {tables}, checks the rights of every login, row images, types, durability and the "
            "plugins of Connect; refuses with the cure before anything is changed",
        ),
        Stage(
            "capture",
            "Make the capture run",
            f"connector {plan.source.connector} puts every transaction of these tables into {plan.source.log_topic}; "
            "tables are added under the source's lock, the log is held against pruning",
        ),
        Stage(
            "snapshot",
            "Read all tables at one position P",
            "commits the low marker and waits for it in the log, opens the read views at P, digests the source inside "
            "them, stages every table and compares it, commits the high marker",
            RunsIn.SPARK,
            "snapshot_load",
        ),
        Stage(
            "publish",
            "Put the tables in place",
            "one destination transaction: tables, boundaries, epoch and ledger; a repeat finds it done by its run id",
        ),
        Stage(
            "start_stream",
            "Start the stream",
            "asks the stream host of pool "
            f"{plan.stream.pool} for one stream per destination; it begins right after the low marker",
        ),
        Stage(
            "cutover",
            "Wait for the cutover",
            "until the ledger of every destination has applied this run's high marker: from then on every commit is a "
            "state the source had",
            RunsIn.TRIGGER,
        ),
        Stage(
            "reconcile",
            "Compare the live tables at one position",
            f"reads both sides at the same P, digests and lists what differs. {_modes(plan)}",
            RunsIn.SPARK,
            "table_compare",
        ),
        Stage(
            "enable",
            "Enable the sync",
            f"only when every verdict is MATCH{_but_parked(plan)}: nightly and stream DAGs may run"
            + (
                "; those of one destination are enough, and it is red behind that where another has failed or differs"
                if len(plan.destinations) > 1
                else ""
            ),
        ),
    )


def _onboard_for_cuts_only(tables: str) -> tuple[Stage, ...]:
    """Without live tables there is nothing to capture, to load or to stream."""
    return (
        Stage(
            "preflight",
            "Check the source and the destinations",
            f"reads the catalogue of {tables}, checks logins, types and destinations; refuses with the cure before"
            " anything is changed",
        ),
        Stage("enable", "Enable the sync", "nights may run, by the tables as preflight has found them"),
    )


def tables_stages(plan: SyncPlan) -> tuple[Stage, ...]:
    return (
        Stage(
            "preflight",
            "Find out what has to change",
            "compares the declared tables with those that the ledgers say are carried, reads the catalogue and checks "
            "all of it; refuses with the cure before anything is changed",
        ),
        Stage(
            "capture",
            "Make the capture carry them",
            f"connector {plan.source.connector} is stopped at its place and started with the longer list; a marker "
            "read back proves it",
        ),
        Stage(
            "snapshot",
            "Read the tables that enter, at one position",
            "as an onboarding does, for these tables only; the stream goes on meanwhile",
            RunsIn.SPARK,
            "snapshot_load",
        ),
        Stage(
            "join",
            "Let them join the stream",
            "a stream of their own brings them along the log to where the held stream stands; one destination "
            "transaction takes them over and puts removed tables aside, and the stream is wanted by the new list; a "
            "repeat finds it done by its run id",
            RunsIn.SPARK,
            "table_join",
        ),
        Stage(
            "cutover",
            "Wait for the cutover",
            "until the ledger of every destination has passed what the joined tables were read at",
            RunsIn.TRIGGER,
        ),
        Stage(
            "compare",
            "Compare all live tables at one position",
            f"reads both sides at the same P, digests and lists what differs. {_modes(plan)}",
            RunsIn.SPARK,
            "table_compare",
        ),
        _live_verdicts(plan),
    )


def nightly_stages(plan: SyncPlan) -> tuple[Stage, ...]:
    if plan.nightly is None:
        return ()
    derived = ", ".join(table.name for table in plan.derived if table not in plan.derived_of_parked)
    stages = [
        Stage(
            "open",
            "Check the date and what is asked",
            "refuses within seconds a date that is missing, malformed, no business date or not over at "
            f"{plan.nightly.cut_off} {plan.nightly.timezone}, one given twice and differently, and tables chosen for a "
            "cut that is to be published; writes the run down with who asked and why",
        ),
        *_waiting(plan.nightly),
        Stage(
            "cut",
            "Read, stage and compare the business date at one position",
            _cut(plan) + (f"; computes {derived} from the staged cut" if derived else ""),
            RunsIn.SPARK,
            "nightly_cut",
        ),
        Stage("verdicts", "Verdict of each table", "shows receipts, control totals, late rows and breaks per table"),
    ]
    stages.append(_expectations(plan))
    stages.append(Stage("gate", "Decide", _on_break(plan)))
    return (*stages, *(_publishing_to_several(plan) if len(plan.destinations) > 1 else _publishing(plan)))


def _expectations(plan: SyncPlan) -> Stage:
    # What is held as it was compared is not read again, and of files nobody reads rows by SQL.
    seen = [one.name for one in plan.destinations if one.cut_source is CutSource.ROWS and not one.rows_apart]
    where = "" if len(seen) == len(plan.destinations) else f" in {', '.join(seen)}"
    keys = f", keys of staged tables{where} are unique" if seen else ""
    rules = f" and the rules of {plan.reconcile.expectations}.yaml" if plan.reconcile.expectations else ""
    rules += "".join(f"; {name} holds" for name in dict.fromkeys(rule.name for rule in plan.reconcile.rules))
    none = "" if keys or rules else "; no rows of the cut are looked at"
    return Stage(
        "expectations",
        "Great Expectations on what was found" if none else "Great Expectations on the staged cut",
        f"suite {plan.sync}__reconciliation: what reconciliation left behind is there for every"
        f" table{keys}{rules}{none}; red when reconciliation did not run",
    )


def _waiting(nightly: NightlyPlan) -> tuple[Stage, ...]:
    if not nightly.closed_when:
        return ()
    wanted = " and ".join(one.in_words for one in nightly.closed_when)
    does = f"for {wanted}; when the verdict is due and it is not there, the night fails with late input"
    return (Stage("ready", "Wait until the source has closed its day", does, RunsIn.TRIGGER),)


def _publishes(plan: SyncPlan) -> str:
    live = "; the cut of the newest date has the live tables compared" if plan.streamed.destinations else ""
    return f"the tables of the date become its next version, per destination as its level says{live}"


def _publishing(plan: SyncPlan) -> tuple[Stage, ...]:
    return (*_approval(plan), Stage("publish", "Publish the cut", _publishes(plan)))


def _publishing_to_several(plan: SyncPlan) -> tuple[Stage, ...]:
    """No destination waits for what is decided about another one."""
    return (
        Stage("publish", "Publish the cut where it is clean", _publishes(plan)),
        *_approval(plan),
        Stage(
            "publish_rest",
            "Publish what had to wait",
            "the same for destinations that were signed for, and for those that did not answer before; skipped where "
            "none has waited",
        ),
        Stage(
            "complete",
            "See that every destination has it",
            "red where one could not be written or is not clean, after the others have published theirs",
        ),
    )


def _approval(plan: SyncPlan) -> tuple[Stage, ...]:
    if plan.reconcile.on_break != "ask":
        return ()
    of_whom = ", about the destinations concerned" if len(plan.destinations) > 1 else ""
    does = f"asked only when tables differ or checks failed{of_whom}; who and why is kept"
    return (Stage("approve", "A person decides", does, RunsIn.PERSON),)


def stream_stages(plan: SyncPlan) -> tuple[Stage, ...]:
    return (
        Stage(
            "want",
            "The stream is wanted",
            f"asks the host of pool {plan.stream.pool} for the streams of this sync; nothing to do when they run",
        ),
        Stage(
            "check",
            "Check the source again",
            "asks what preflight asks, beside the watch: settings that somebody has changed since, and whatever would "
            "end the capture or lose rows silently",
        ),
        Stage(
            "watch",
            "Watch until the business date ends",
            f"fires at once when a stream fails or lags more than {plan.stream.lag_max_s:g} s",
            RunsIn.TRIGGER,
        ),
        Stage(
            "report",
            "The day's report",
            "position, lag, units, changes and findings; red as check and watch were",
        ),
    )


def reconcile_stages(plan: SyncPlan) -> tuple[Stage, ...]:
    if plan.reconcile_only is not None:
        return (*_separate_comparison(plan.reconcile_only), _live_verdicts(plan))
    return (
        Stage(
            "compare",
            "Compare the live tables at one position",
            "brings both sides to the same P, digests per bucket, lists the rows that differ, saves verdicts and"
            f" control totals. {_modes(plan)}",
            RunsIn.SPARK,
            "table_compare",
        ),
        _live_verdicts(plan),
    )


def _modes(plan: SyncPlan) -> str:
    return "; ".join(_mode(plan, one) for one in plan.streamed.destinations)


def _mode(plan: SyncPlan, destination: DestinationPlan) -> str:
    """How a destination's side comes to the position of the source's, and why so."""
    if destination.name in plan.reconcile.by_log:
        return (
            f"{destination.name} by the log, as declared: nobody holds the stream, and the log between both positions"
            " is applied to what the destination was read with"
        )
    if destination.cut_source is CutSource.LIVE:
        return (
            f"{destination.name} versioned: the stream is held at an END, and the version of its tables that stands"
            " there is read"
        )
    return f"{destination.name} by the barrier: the stream is held at an END while both sides are opened there"


def _separate_comparison(declared: ReconcileOnlyPlan) -> tuple[Stage, ...]:
    """Another tool carries the tables: nothing of ours can hold it."""
    return (
        Stage(
            "compare",
            "Compare the tables between two views, each at its own position",
            "reads both catalogues, opens a view of the source and then one of the destination, digests per bucket,"
            f" lists the rows that differ and reads these again after {declared.in_flight_max_s:g} s: what stands is a"
            " BREAK, what has moved was in flight and makes its table INCONCLUSIVE; never compared again for a MATCH",
            RunsIn.SPARK,
            "table_compare",
        ),
    )


def repair_stages(plan: SyncPlan) -> tuple[Stage, ...]:
    return (
        Stage(
            "plan",
            "Plan what would be done",
            "reads both rows of each break of the newest comparison again, at one position, and lists what would be"
            " done; changes nothing. A repair that is planned already is taken as it is",
        ),
        Stage(
            "approve",
            "A second person approves",
            "on the Reconciliation page or by `./seamline repair approve`, with the cause; the database refuses whoever"
            " planned it",
            RunsIn.PERSON,
        ),
        Stage(
            "apply",
            "Apply it where the stream stands, and compare again",
            "holds the stream at an END, changes the rows that are as they were approved in one commit, and compares"
            " all live tables at that very position; the stream starts again where it stood",
        ),
        _live_verdicts(plan),
    )


_STAGES: dict[str, Callable[[SyncPlan], tuple[Stage, ...]]] = {
    "onboard": onboard_stages,
    "tables": tables_stages,
    "nightly": nightly_stages,
    "stream": stream_stages,
    "reconcile": reconcile_stages,
    "repair": repair_stages,
}
DAG_KINDS = tuple(_STAGES)


def all_stages(plan: SyncPlan) -> dict[str, tuple[Stage, ...]]:
    """The stages of every DAG that this plan has, by the DAG's kind; the DAG's id is `<sync>__<kind>`."""
    kinds = {"reconcile": reconcile_stages} if plan.reconcile_only is not None else _STAGES
    found = ((kind, stages_of, concerned(plan, kind)) for kind, stages_of in kinds.items())
    return {kind: stages for kind, stages_of, about in found if about.destinations and (stages := stages_of(about))}


def concerned(plan: SyncPlan, kind: str) -> SyncPlan:
    """The plan of the destinations that a DAG of this kind is about. Those of cuts only have nights and no more; where
    there are no others, an onboarding finds out what their nights go by. Nights leave out those without cuts."""
    if plan.reconcile_only is not None:
        return plan
    if kind == "nightly":
        return plan.cut
    has_live_tables = bool(plan.streamed.destinations)
    return plan if kind == "onboard" and not has_live_tables else plan.streamed


def _cut(plan: SyncPlan) -> str:
    """One read for all destinations whose cuts are rows, and a barrier for each of the others."""
    live = [one.name for one in plan.destinations if one.cut_source is CutSource.LIVE]
    parts = []
    if len(live) < len(plan.destinations):
        of = f" into {', '.join(one.name for one in plan.destinations if one.name not in live)}" if live else ""
        read = f"{_dated(plan)}; stages{of}, digests inside the same read views, compares"
        parts.append(_by_log(plan, of, read))
    if live:
        parts.append(
            f"for {', '.join(live)}: holds the stream at an END, keeps hold of the live tables at that P and compares"
            f" them whole with the source{_but_parked(plan)}"
        )
    return "; ".join(parts)


def _by_log(plan: SyncPlan, of: str, read: str) -> str:
    """What is done where nights are made from the log, and when the source is read."""
    made_from = plan.nightly.made_from if plan.nightly else MadeFrom.READ
    if made_from is MadeFrom.INCREMENTAL:
        return (
            f"{read}; of tables with a `cursor`, or whose key begins with a whole number, only the rows behind the"
            " newest cut are read, the others are those of that cut; where any differs from the source, the"
            " tables are read whole"
        )
    if not made_from.uses_log:
        return read
    else_read = {
        MadeFrom.LOG: "refuses a date that cannot be made so; the very first one is read",
        MadeFrom.AUTO: "where that cannot be it says why, and the date is read",
    }
    return (
        f"makes the cut{of} from the newest cut before it and the log since, up to the last transaction before the"
        f" cut-off: every table as it was then, whenever this runs; {LOOKS_ON}; the source is not read, what is staged"
        f" must have the digests that follow from that cut and the log; {else_read[made_from]}: {read}"
    )


def _dated(plan: SyncPlan) -> str:
    dated = [table.name for table in plan.tables if table.business_date]
    whole = [table.name for table in plan.tables if not table.business_date]
    parts = []
    if dated:
        parts.append(f"the date's rows of {', '.join(dated)}")
    if whole:
        parts.append(f"{', '.join(whole)} whole")
    if plan.nightly and plan.nightly.is_delivered:
        return (
            "takes the delivery of the date unless it is in force already, holds its files against what it promises"
            f" before anything is loaded, and reads {', '.join(whole)}{_but_parked(plan)}"
        )
    at = "at one P" if plan.source.has_log else "in one snapshot"
    return f"reads {at} {' and '.join(parts)}{_but_parked(plan)}"


def _live_verdicts(plan: SyncPlan) -> Stage:
    does = f"MATCH, BREAK, INCONCLUSIVE or NOT_RUN; anything but MATCH is red{_but_parked(plan)}"
    return Stage("verdicts", "Verdict of each table", does)


def _but_parked(plan: SyncPlan) -> str:
    return f", but of parked tables ({', '.join(table.name for table in plan.parked)})" if plan.parked else ""


def _on_break(plan: SyncPlan) -> str:
    return (
        "a run that compares only ends here, as green as what it found; "
        + ("each destination by itself; " if len(plan.destinations) > 1 else "")
        + "all MATCH: publish; "
        + {
            "ask": f"otherwise {' or '.join(plan.reconcile.approvers) or 'a person'} is asked",
            "fail": "otherwise the run fails and it is not published",
            "publish_and_flag": "otherwise the cut is published with its verdict",
        }[plan.reconcile.on_break]
    )


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
