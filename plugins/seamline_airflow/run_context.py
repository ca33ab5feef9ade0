"""Which run a task belongs to: read from Airflow's context, in one place."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from seamline.domain.calendar import date_at
from seamline.domain.errors import ConfigError
from seamline.domain.runs import RunKind

NO_DATE = "-"
# The parameter of a run that names its business date.
BUSINESS_DATE = "business_date"
_GIVE = f"or give it as {BUSINESS_DATE} or as the partition key, such as 2026-11-19"


def business_date(context: Mapping[str, Any]) -> date:
    """The business date of this run: its partition key, or the date of the form that starts it.

    Partitioned runs have neither a logical date nor a data interval, so nothing else is asked.
    """
    found = optional_business_date(context)
    if found is None:
        raise ConfigError("this run has no business date", hint=f"choose one in the form of *Trigger*, {_GIVE}")
    return found


def optional_business_date(context: Mapping[str, Any]) -> date | None:
    """As `business_date`, None where neither is given. ConfigError where both are, and differ."""
    key = getattr(context["dag_run"], "partition_key", None)
    chosen = dict(context.get("params") or {}).get(BUSINESS_DATE)
    dates = {_date(given) for given in (key, chosen) if given}
    if len(dates) > 1:
        raise ConfigError(
            f"two business dates: the partition key says {key}, the form says {chosen}",
            hint="trigger it again with one of them, or with the same twice",
        )
    return next(iter(dates), None)


def _date(given: object) -> date:
    try:
        found = date.fromisoformat(str(given))
    except ValueError:
        found = None
    # Python reads 20261119 and 2026-W47-4 too; the name of a run has one spelling.
    if found is None or found.isoformat() != given:
        raise ConfigError(f"not a business date: {given!r}", hint="write it as YYYY-MM-DD")
    return found


def is_of_backfill(name: str) -> bool:
    """Whether Airflow has made the run of this name for a backfill: it names runs by their kind, and keeps these names
    from people (3.3.2)."""
    return name.startswith("backfill__")


def follows_a_cut(name: str) -> bool:
    """Whether Airflow has made the run of this name for an event of an asset; it keeps these names from people, too."""
    return name.startswith("asset_triggered__")


def run_id(context: Mapping[str, Any], *, sync: str, kind: RunKind) -> str:
    """`<sync>/<kind>/<business date or ->/<airflow run id>`: the same for every task and every attempt of a run."""
    found = optional_business_date(context)
    return f"{sync}/{kind.value}/{found.isoformat() if found else NO_DATE}/{context['dag_run'].run_id}"


def run_id_macro(sync: str, kind: RunKind) -> Any:
    """The function behind `{{ seamline_run(dag_run, params) }}`, so that rendered arguments show the run's id."""

    def seamline_run(dag_run: Any, params: Mapping[str, Any]) -> str:
        return run_id({"dag_run": dag_run, "params": params}, sync=sync, kind=kind)

    return seamline_run


def stream_date(context: Mapping[str, Any], *, timezone: str) -> date:
    """The business date that a run of a stream's DAG stands for; today where it was started by hand."""
    return optional_business_date(context) or date_at(datetime.now(UTC), timezone=timezone)
