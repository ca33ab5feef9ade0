"""Lets Great Expectations judge. It costs 5 to 9 seconds and 300 MB to import, so it is imported when it is asked."""

import json
import logging
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from seamline.domain.canonical import canonical_text, named_text
from seamline.domain.catalogue import Column
from seamline.domain.errors import ConfigError, SchemaConflict, TransientError
from seamline.domain.expectation_results import counted_rows
from seamline_airflow.expectations import KEYS_MAX, Expectation, Frame, Outcome, StagedRows

_ROWS_OF_A_QUERY = "unexpected_rows_expectation"
_NOT_EVALUATED = "it could not be evaluated"
# By which an answer names what was asked.
_ASKED = "asked"

Check = tuple[str, str, Mapping[str, Any], str]


def load_checks(declarations: Path, suite: str) -> tuple[Check, ...]:
    """The checks of a declared suite, with the type as the reason of one that has none; () for "". Read when needed."""
    if not suite:
        return ()
    from seamline.spec.load import load_suite

    declared = load_suite(declarations, suite)
    if declared is None or declared.spec is None:
        faults = "; ".join(str(fault) for fault in declared.document.faults) if declared else "there is no such file"
        raise ConfigError(f"suite {suite} cannot be used: {faults}", hint="`seamline validate` lists all that is wrong")
    return tuple((check.table, check.type, check.kwargs, check.why or check.type) for check in declared.spec.checks)


def check(
    frames: Iterable[Frame], staged: Iterable[StagedRows], url_of: Callable[[str], str], *, suite: str
) -> list[Outcome]:
    """Let Great Expectations judge, under the name `suite`. One outcome per expectation, always: one that GX dropped or
    could not evaluate is not met. `url_of`: for SQLAlchemy, by the schema of staged rows. TransientError where staged
    rows cannot be reached."""
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
        outcomes += _judge(gx.ExpectationSuite, suite, batch, frame.name, frame.expectations)
    sources: dict[str, Any] = {}
    for table in staged:
        try:
            batch = _batch_of(table, context, sources, url_of)
        except (ConnectionError, gx.exceptions.GreatExpectationsError) as exc:
            # Its own class of errors of connections is one of Python's.
            raise TransientError(f"the staged {table.name} cannot be checked: {_first_line(exc)}") from exc
        outcomes += _judge(gx.ExpectationSuite, suite, batch, table.name, table.expectations, table.key)
    return outcomes


def _batch_of(table: StagedRows, context: Any, sources: dict[str, Any], url_of: Callable[[str], str]) -> Any:
    """All rows of a staged table. `sources` keeps the data source of each schema."""
    if table.schema not in sources:
        # The URL, and with it the password, lives in this process only.
        with warnings.catch_warnings():
            # It knows a special class for some databases; all that is asked of it works with any.
            warnings.simplefilter("ignore")
            sources[table.schema] = context.data_sources.add_or_update_sql(
                # SQLAlchemy leaves blanks of login and password as they are, and the check of GX takes none.
                f"destination {table.schema}",
                connection_string=url_of(table.schema).replace(" ", "%20"),
            )
    from great_expectations.datasource.fluent.sql_datasource import TableAsset

    # One asset at a time, and none is added: with each that is, the context writes all its settings as YAML, which
    # takes longer than the checks of a small table.
    source = sources[table.schema]
    # In quotes: GX writes a bare name into its SQL as it is, and a database may read it in lower case.
    source.assets = [TableAsset(name=table.name, table_name=f'"{table.relation}"')]
    asset = source.get_asset(table.name)
    asset.test_connection()
    return asset.get_batch(asset.build_batch_request())


def _judge(
    suite_of: Any,
    suite: str,
    batch: Any,
    name: str,
    expectations: Sequence[Expectation],
    key: Sequence[Column] | None = None,
) -> list[Outcome]:
    """`key`: of the table that the batch is; None for a batch of results, whose rows are no rows of data."""
    from great_expectations.exceptions import GreatExpectationsError

    met = _met_together(suite_of, suite, batch, expectations)
    outcomes = []
    for place, expectation in enumerate(expectations):
        if place in met:
            outcomes.append(Outcome(name, expectation, is_met=True))
            continue
        try:
            outcomes.append(_judged_alone(suite_of, suite, batch, name, expectation, key))
        except (GreatExpectationsError, ValueError) as error:
            # Of arguments that it does not take, which a declaration may name: the others are judged all the same.
            why = f"{_NOT_EVALUATED}: {_first_line(error)}"
            outcomes.append(Outcome(name, expectation, is_met=False, detail=why))
    return outcomes


def _judged_alone(
    suite_of: Any, suite: str, batch: Any, name: str, expectation: Expectation, key: Sequence[Column] | None
) -> Outcome:
    """What GX says of several may have the error of one for all that share a query with it, and a suite drops an
    expectation that it does not know, with no more than a line in the log."""
    alone = suite_of(suite, expectations=[{"type": expectation.type, "kwargs": dict(expectation.kwargs)}])
    found = _validated(batch, alone, "SUMMARY")
    if _is_met(found):
        return Outcome(name, expectation, is_met=True)
    # Asked for the rows only now: it reads the table once more.
    keys = _named(batch, alone, expectation, key or ())
    rows = None if key is None else _rows(found)
    return Outcome(name, expectation, is_met=False, detail=_detail(found), rows=rows, keys=keys)


def _met_together(suite_of: Any, suite: str, batch: Any, expectations: Sequence[Expectation]) -> frozenset[int]:
    """The places of those that GX says are met where it is asked for all of them at once: it reads the columns of the
    table once, and counts in one statement. Nothing else is taken from this; each of the rest is asked alone."""
    # A suite may expect what is expected of every table, as that its key is unique: it is asked once.
    places: dict[str, list[int]] = {}
    for place, one in enumerate(expectations):
        if asked := _as_json(one):
            places.setdefault(asked, []).append(place)
    if not places:
        return frozenset()
    from great_expectations.exceptions import GreatExpectationsError

    wanted = [{**json.loads(asked), "meta": {_ASKED: asked}} for asked in places]
    try:
        result = batch.validate(suite_of(suite, expectations=wanted), result_format="BOOLEAN_ONLY")
    except (GreatExpectationsError, ValueError):
        # One of them has arguments that it does not take, which ends the question for all.
        return frozenset()
    # By what was asked: GX answers in an order of its own, those with errors first.
    met = [one.expectation_config.meta[_ASKED] for one in result.results if _is_met(one)]
    return frozenset(place for asked in met for place in places[asked])


def _as_json(expectation: Expectation) -> str:
    """Nothing where JSON has no such arguments: GX takes two metrics for one where these are alike as JSON, as a date
    and its text are."""
    asked = {"type": expectation.type, "kwargs": dict(expectation.kwargs)}
    try:
        text = json.dumps(asked)
    except (TypeError, ValueError):
        return ""
    return text if json.loads(text) == asked else ""


def _is_met(found: Any) -> bool:
    return found is not None and bool(found.success) and not _raised(found.exception_info)


def _named(batch: Any, alone: Any, expectation: Expectation, key: Sequence[Column]) -> tuple[str, ...]:
    """Some of the rows, or groups of a rule, that did not meet it."""
    if not key and not expectation.shown:
        return ()
    found = _validated(batch, alone, _rows_named(expectation, key))
    return _groups(found, expectation.shown) if expectation.shown else _keys(found, key)


def _groups(found: Any, shown: Sequence[str]) -> tuple[str, ...]:
    if found is None or _raised(found.exception_info):
        return ()
    rows = ((found.result or {}).get("details") or {}).get("unexpected_rows") or ()
    return tuple(_group(dict(row), shown) for row in rows[:KEYS_MAX])


def _group(values: Mapping[str, Any], shown: Sequence[str]) -> str:
    texts = {name: None if values[name] is None else _plain(values[name]) for name in shown}
    return json.dumps(texts, ensure_ascii=False)


def _plain(value: Any) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _validated(batch: Any, suite: Any, result_format: Any) -> Any:
    """What Great Expectations says of the one expectation; None where it dropped it."""
    result = batch.validate(suite, result_format=result_format)
    return result.results[0] if len(result.results) == 1 else None


def _rows_named(expectation: Expectation, key: Sequence[Column]) -> Any:
    """How to ask for the keys of rows. Of a query of its own GX gives the rows whole, or none."""
    if expectation.type == _ROWS_OF_A_QUERY:
        return "COMPLETE"
    return {
        "result_format": "SUMMARY",
        "unexpected_index_column_names": [column.name for column in key],
        "partial_unexpected_count": KEYS_MAX,
        "exclude_unexpected_values": True,
    }


def _rows(found: Any) -> int | None:
    """How many rows did not meet it; None for an expectation that is not about rows, or that could not be evaluated."""
    if found is None or _raised(found.exception_info):
        return None
    result = found.result or {}
    if found.expectation_config.type == _ROWS_OF_A_QUERY:
        return int(result["observed_value"])
    count = result.get("unexpected_count")
    return None if count is None else int(count)


def _keys(found: Any, key: Sequence[Column]) -> tuple[str, ...]:
    """The keys of some rows that did not meet it; () where they are not to be had. No other value is kept."""
    if found is None or _raised(found.exception_info):
        return ()
    result = found.result or {}
    names = [column.name for column in key]
    rows: list[Sequence[Any]] = []
    for block in result.get("partial_unexpected_index_list") or ():
        # A list of values for each column.
        rows += zip(*(block[name] for name in names), strict=True)
    for row in (result.get("details") or {}).get("unexpected_rows") or ():
        values = dict(row)
        if not values.keys() >= set(names):
            return ()
        rows.append([values[name] for name in names])
    texts = (named_text(key, [_text(column, value) for column, value in zip(key, row, strict=True)]) for row in rows)
    return tuple(dict.fromkeys(texts))[:KEYS_MAX]


def _text(column: Column, value: Any) -> str | None:
    try:
        return canonical_text(column, value)
    except (TypeError, ValueError, SchemaConflict):
        # The client gives some values in a type of its own; they are only shown here.
        return str(value)


def _raised(info: Any) -> bool:
    """GX reports errors flat for an expectation and nested by metric."""
    if not isinstance(info, Mapping):
        return False
    return bool(info.get("raised_exception")) or any(_raised(inner) for inner in info.values())


def _detail(found: Any) -> str:
    if found is None:
        return "Great Expectations does not know this expectation"
    if _raised(found.exception_info):
        return f"{_NOT_EVALUATED}: {_message(found.exception_info)}"
    result = found.result or {}
    if result.get("unexpected_count") is not None:
        return counted_rows(int(result["unexpected_count"]), result.get("element_count"))
    observed = result.get("observed_value")
    return f"found: {observed:,}" if isinstance(observed, int | float) else ""


def _message(info: Mapping[str, Any]) -> str:
    for value in (info, *[inner for inner in info.values() if isinstance(inner, Mapping)]):
        if text := value.get("exception_message"):
            return _first_line(text)
    return "no message"


def _first_line(text: object) -> str:
    """The rest of a database's message may quote a row."""
    return (str(text).splitlines() or [type(text).__name__])[0][:200]
