"""Which run a task belongs to: read from Airflow's context, in one place."""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any

from seamline.domain.calendar import date_at
from seamline.domain.errors import ConfigError
from seamline.domain.runs import RunKind

NO_DATE = "-"


def business_date(context: Mapping[str, Any]) -> date:
    """The business date of this run: its partition key, else the parameter `business_date`.

    Partitioned runs have neither a logical date nor a data interval, so nothing else is asked.
    """
    found = optional_business_date(context)
    if found is None:
        raise ConfigError(
            "this run has no business date",
            hint="trigger it with a partition key such as 2026-11-19, or set the parameter business_date",
        )
    return found


def optional_business_date(context: Mapping[str, Any]) -> date | None:
    """As `business_date`, None where neither is given."""
    key = getattr(context["dag_run"], "partition_key", None) or dict(context.get("params") or {}).get("business_date")
    if not key:
        return None
    try:
        return date.fromisoformat(str(key))
    except ValueError as exc:
        raise ConfigError(f"not a business date: {key!r}", hint="write it as YYYY-MM-DD") from exc


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
