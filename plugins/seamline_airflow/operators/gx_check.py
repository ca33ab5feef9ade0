"""Great Expectations as the gate before a cut is published.

GX costs 5 to 9 seconds and 300 MB to import, so it is imported while the task runs, never while DAGs are parsed.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from airflow.sdk import BaseOperator

from seamline import settings
from seamline.adapters.connections import Connection, resolve
from seamline.domain.errors import ConfigError, GateFailed
from seamline.domain.runs import Scope
from seamline.domain.staged_cut import cut_from_json
from seamline.domain.verdict import Verdict
from seamline.plan.model import Run
from seamline_airflow import parts
from seamline_airflow.errors import task_errors
from seamline_airflow.expectations import (
    Expectation,
    Frame,
    GateResult,
    Outcome,
    StagedRows,
    result_frames,
    staged_rows,
)

Check = tuple[str, str, Mapping[str, Any], str]


class GXCheckOperator(BaseOperator):
    """Run the suite `<sync>__reconciliation` of the run that `run` names: result tables and staged cut.

    `on_mismatch`: "fail" ends the task red on any unmet expectation; "return" leaves breaks to the next task. Missing
    evidence (reconciliation did not run, a table without a verdict) is red in both. Returns verdict and failures.
    """

    template_fields = ("run",)

    def __init__(self, *, run: str, suite: str = "", on_mismatch: str = "fail", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.run = run
        self.suite = suite
        self.on_mismatch = on_mismatch

    def execute(self, context: Any) -> dict[str, Any]:
        with task_errors(), parts.platform() as store:
            run = store.run(self.run)
            checks = load_checks(settings.load().declarations, self.suite)
            outcomes: list[Outcome] = []
            for destination in run.plan.destinations:
                found = store.reconciliation(run.run_id, Scope.CUT, destination.name)
                outcomes += check(
                    result_frames(run, destination.name, found),
                    _staged(run, destination.name, checks),
                    resolve(destination.connection),
                )
            result = GateResult(tuple(outcomes))
            store.put_result(run.run_id, "expectations", result.to_json())
            self._tell(result)
            self._require(run, result)
        return result.to_json()

    def _tell(self, result: GateResult) -> None:
        for outcome in result.outcomes:
            word = "met" if outcome.is_met else "NOT MET"
            self.log.info("%s: %s: %s %s", word, outcome.batch, outcome.expectation.why, outcome.detail)

    def _require(self, run: Run, result: GateResult) -> None:
        failed = result.missing if result.verdict is Verdict.NOT_RUN else result.broken
        if not failed and result.verdict is Verdict.MATCH:
            return
        if result.verdict is Verdict.BREAK and self.on_mismatch == "return":
            return
        what = "; ".join(f"{o.batch}: {o.expectation.why} ({o.detail})" for o in failed) or "nothing was checked"
        raise GateFailed(
            f"the gate of {run.business_date} is {result.verdict}: {what}",
            hint="see the Reconciliation page; run the task `cut` again when reconciliation did not run",
            sync=run.sync,
        )


def load_checks(declarations: Path, suite: str) -> tuple[Check, ...]:
    """The declared checks of `expectations/<suite>.yaml`, or of a native GX suite `<suite>.json`, whose expectations
    name their table in `meta.table`. Read when it is needed; "" has none."""
    if not suite:
        return ()
    native = declarations / "expectations" / f"{suite}.json"
    if native.exists():
        return _native_checks(native)
    from seamline.spec.load import read_folder

    declared = read_folder(declarations).expectations.get(suite)
    if declared is None or declared.spec is None:
        faults = "; ".join(str(fault) for fault in declared.document.faults) if declared else "there is no such file"
        raise ConfigError(f"suite {suite} cannot be used: {faults}", hint=f"see include/expectations/{suite}.yaml")
    return tuple((check.table, check.type, check.kwargs, check.why) for check in declared.spec.checks)


def _native_checks(file: Path) -> tuple[Check, ...]:
    try:
        entries = json.loads(file.read_text(encoding="utf-8"))["expectations"]
        return tuple(
            (
                entry["meta"]["table"],
                entry["type"],
                entry.get("kwargs") or {},
                str(entry["meta"].get("why") or entry["type"]),
            )
            for entry in entries
        )
    except (ValueError, KeyError, TypeError) as exc:
        raise ConfigError(
            f"{file.name} is not a suite of Great Expectations: {exc!r}",
            hint="each expectation needs `type`, `kwargs` and `meta: {table: …}`",
        ) from exc


def _staged(run: Run, destination: str, checks: Sequence[Check]) -> tuple[StagedRows, ...]:
    document = (run.result.get("cut") or {}).get(destination)
    if document is None:
        raise GateFailed(
            f"run {run.run_id} has staged no cut for {destination}: reconciliation did not run",
            hint="run the task `cut` again",
            sync=run.sync,
        )
    return staged_rows(run.plan, destination, cut_from_json(document), checks)


def check(frames: Iterable[Frame], staged: Iterable[StagedRows], connection: Connection) -> list[Outcome]:
    """Let Great Expectations judge. One outcome per expectation, always: one that GX dropped or could not evaluate is
    not met."""
    # Hundreds of lines about its own machinery would bury the outcomes in the task's log.
    logging.getLogger("great_expectations").setLevel(logging.WARNING)
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    outcomes: list[Outcome] = []
    frame_source = context.data_sources.add_or_update_pandas("results")
    for frame in frames:
        import pandas

        asset = frame_source.add_dataframe_asset(frame.name).add_batch_definition_whole_dataframe("all")
        data = pandas.DataFrame(list(frame.rows), columns=list(frame.columns))
        batch = asset.get_batch(batch_parameters={"dataframe": data})
        outcomes += _judge(gx, batch, frame.name, frame.expectations)
    rows_source = None
    for table in staged:
        # Opened once there is something to look at; the URL lives in this process only.
        rows_source = rows_source or context.data_sources.add_or_update_postgres(
            "destination", connection_string=_url(connection)
        )
        table_asset = rows_source.add_table_asset(table.name, table_name=table.relation, schema_name=table.schema)
        batch = table_asset.add_batch_definition_whole_table("all").get_batch()
        outcomes += _judge(gx, batch, table.name, table.expectations)
    return outcomes


def _judge(gx: Any, batch: Any, name: str, expectations: Sequence[Expectation]) -> list[Outcome]:
    outcomes = []
    for expectation in expectations:
        # One suite each: a suite drops an expectation that it does not know, with no more than a line in the log.
        suite = gx.ExpectationSuite(name, expectations=[{"type": expectation.type, "kwargs": dict(expectation.kwargs)}])
        result = batch.validate(suite, result_format="SUMMARY")
        found = result.results[0] if len(result.results) == 1 else None
        is_met = found is not None and bool(found.success) and not _raised(found.exception_info)
        outcomes.append(Outcome(name, expectation, is_met, "" if is_met else _detail(found)))
    return outcomes


def _raised(info: Any) -> bool:
    """GX tells errors flat for an expectation and nested by metric."""
    if not isinstance(info, Mapping):
        return False
    return bool(info.get("raised_exception")) or any(_raised(inner) for inner in info.values())


def _detail(found: Any) -> str:
    if found is None:
        return "Great Expectations does not know this expectation"
    if _raised(found.exception_info):
        return f"it could not be evaluated: {_message(found.exception_info)}"
    result = found.result or {}
    numbers = {name: result[name] for name in ("element_count", "unexpected_count") if name in result}
    if not numbers and isinstance(result.get("observed_value"), int | float):
        numbers = {"observed": result["observed_value"]}
    return ", ".join(f"{name} {value}" for name, value in numbers.items())


def _message(info: Mapping[str, Any]) -> str:
    """The first line only: the rest of a database's message may quote a row."""
    for value in (info, *[inner for inner in info.values() if isinstance(inner, Mapping)]):
        if text := value.get("exception_message"):
            return str(text).splitlines()[0][:200]
    return "no message"


def _url(connection: Connection) -> str:
    from sqlalchemy import URL

    url = URL.create(
        "postgresql+psycopg2",
        username=connection.login or None,
        password=connection.password or None,
        host=connection.host,
        port=connection.port,
        database=connection.database,
    )
    return url.render_as_string(hide_password=False)
