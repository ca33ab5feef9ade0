"""What a person may ask of a nightly run: the form that *Trigger* opens, and what was filled in."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow.sdk import Param

from seamline.domain.errors import ConfigError
from seamline.domain.runs import ASKED_BY, KEEP_DONE, MODE, ONLY_TABLES, REASON, NightlyMode
from seamline.plan.model import SyncPlan
from seamline_airflow.run_context import BUSINESS_DATE

_TABLES = "tables"


@dataclass(frozen=True, slots=True)
class Asked:
    """`tables`: () for all of the sync. `reason` and `by` are "" where none is known, as in the night. `keep_done`: a
    date whose newest version is a MATCH is not made again."""

    mode: NightlyMode = NightlyMode.PUBLISH
    tables: tuple[str, ...] = ()
    reason: str = ""
    by: str = ""
    keep_done: bool = False

    def results(self) -> dict[str, Any]:
        """As it is kept with the run."""
        return {
            MODE: self.mode.value,
            ONLY_TABLES: list(self.tables),
            REASON: self.reason,
            ASKED_BY: self.by,
        }


def form(plan: SyncPlan) -> dict[str, Param]:
    """The parameters of the nightly DAG. The schedule and a backfill leave them as they are."""
    zone = plan.nightly.timezone if plan.nightly else "UTC"
    return {
        BUSINESS_DATE: Param(
            None,
            type=["null", "string"],
            format="date",
            title="Business date",
            description_md=f"A date that has ended in {zone}, as 2026-11-19. Needed, unless *Partition Key* below "
            "names it.",
        ),
        MODE: Param(
            NightlyMode.PUBLISH.value,
            type="string",
            enum=[mode.value for mode in NightlyMode],
            title="Mode",
            description_md="*compare only* ends after the verdicts and the checks: readers get nothing new.",
        ),
        _TABLES: Param(
            [],
            type=["null", "array"],
            items={"type": "string"},
            examples=[table.name for table in plan.tables],
            title="Tables",
            description_md="None for all. Some of them only with *compare only*: a version without a table would take "
            "it from its readers.",
        ),
        REASON: Param(
            None,
            type=["null", "string"],
            title="Reason",
            description_md="Kept with the run. A delivery of files that is in force and is well is taken once more "
            "only with a reason.",
        ),
        KEEP_DONE: Param(
            False,  # noqa: FBT003 (the default of a box to tick)
            type="boolean",
            title="Keep what is done",
            description_md="For a backfill: dates whose newest version is a MATCH are not made again.",
        ),
    }


def asked(context: Mapping[str, Any], plan: SyncPlan) -> Asked:
    """What this run was asked for. ConfigError for what cannot be done, with the cure."""
    params = dict(context.get("params") or {})
    mode = _mode(params.get(MODE))
    tables = tuple(params.get(_TABLES) or ())
    if unknown := [name for name in tables if name not in {table.name for table in plan.tables}]:
        raise ConfigError(
            f"sync {plan.sync} has no table {', '.join(unknown)}",
            hint=f"its tables are {', '.join(table.name for table in plan.tables)}",
        )
    if tables and mode is NightlyMode.PUBLISH:
        raise ConfigError(
            f"only {', '.join(tables)} cannot be published: the version would take the other tables from its readers",
            hint=f"choose the mode `{NightlyMode.COMPARE_ONLY}`, or leave the tables empty for all of them",
        )
    by = str(getattr(context["dag_run"], "triggering_user_name", None) or "")
    reason = " ".join(str(params.get(REASON) or "").split())
    # What is published is no reason not to compare it again.
    keep_done = mode is NightlyMode.PUBLISH and bool(params.get(KEEP_DONE))
    return Asked(mode, tables, reason, by, keep_done=keep_done)


def _mode(chosen: object) -> NightlyMode:
    try:
        return NightlyMode(chosen or NightlyMode.PUBLISH)
    except ValueError as exc:
        modes = " or ".join(f"`{mode}`" for mode in NightlyMode)
        raise ConfigError(f"there is no mode {chosen!r}", hint=f"choose {modes}") from exc
