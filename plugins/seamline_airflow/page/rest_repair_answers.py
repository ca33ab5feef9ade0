"""What REST answers about repairs of live tables."""

from datetime import datetime

from pydantic import Field

from seamline.domain.verdict import Verdict
from seamline_airflow.page.rest_values import Answer


class RepairRow(Answer):
    """Values as both sides were read for the plan: once it is applied, those of the destination are of before it."""

    table: str
    named: str
    action: str | None = Field(description="null: the plan leaves the row alone.")
    state: str
    why: str
    source: dict[str, str | None] | None
    destination: dict[str, str | None] | None


class Repair(Answer):
    run_id: str
    destination: str
    compared: str
    position: str
    state: str
    planned_by: str
    planned_at: datetime | None
    approved_by: str
    approved_at: datetime | None
    cause: str | None
    reason: str
    applied_at: datetime | None
    applied_position: str
    verdict: Verdict | None


class RepairStarted(Answer):
    id: str = Field(description="What to ask for under repair; 404 before the run has planned it.")


class RepairPlan(Repair):
    """`hash`: of what is approved. `why`: in words of who has asked for the plan. `refused`: tables that it leaves out,
    with the reason. `rows`: the first ones."""

    hash: str
    why: str
    refused: dict[str, str]
    counts: dict[str, dict[str, int]]
    rows_total: int
    rows: list[RepairRow]
