"""What a person reads before signing for a cut: what is not clean, which rows, where they are shown, who may answer."""

from collections.abc import Iterator, Sequence
from urllib.parse import urlencode, urlsplit

from airflow.sdk.configuration import conf

from seamline import settings
from seamline.domain.masking import Hidden, masked, masked_detail, masked_key
from seamline.domain.person import one_line
from seamline.domain.phrase import counted
from seamline.domain.runs import Reconciliation, checked_in
from seamline.domain.verdict import TableVerdict, Verdict
from seamline.plan.model import Run
from seamline.spec.sensitive import hidden_columns
from seamline_airflow.expectations import TABLE_VERDICTS

KEYS_SHOWN = 5
_KEY_LETTERS_MAX = 120


def question_text(run: Run, found: Sequence[Reconciliation], approvers: Sequence[str]) -> str:
    """Markdown. `found`: of the destinations that are asked about. Of rows their keys and no values: whoever may see
    the question may not see the data."""
    found, hidden = masked(found, _hidden), _hidden(run.sync)
    lines = [f"The cut of **{run.business_date}** is not clean{_where(run, found)}", ""]
    for one in found:
        lines += _of_destination(run, one, hidden)
    return "\n".join([*lines, "", *_around(run, approvers)]) + "\n"


def _where(run: Run, found: Sequence[Reconciliation]) -> str:
    """Which destinations are asked about, and what becomes of the others meanwhile."""
    if len(run.plan.destinations) == 1:
        return "."
    asked = [one.destination for one in found]
    others = [_code(one.name) for one in run.plan.destinations if one.name not in asked]
    rest = f" The answer changes nothing in {', '.join(others)}: what is clean there is published." if others else ""
    return f" in **{'** and **'.join(asked)}**.{rest}"


def _hidden(sync: str) -> Hidden:
    return hidden_columns(settings.load().declarations, sync)


def _of_destination(run: Run, found: Reconciliation, hidden: Hidden) -> Iterator[str]:
    keyed = {table.name for table in run.plan.tables if table.table is not None and table.table.is_keyed}
    differing = [
        line
        for table in found.tables
        if table.verdict is not Verdict.MATCH and not (table.verdict is Verdict.NOT_RUN and table.reason)
        for line in _differing(found.destination, table, keyed)
    ]
    yield from differing
    for failed in (checked_in(run.result, found.destination) or {}).get("failed", ()):
        if differing and failed["on"] == TABLE_VERDICTS:
            continue  # The same again.
        where = f" in {found.destination}" if len(run.plan.destinations) > 1 else ""
        shown = {**failed, "detail": masked_detail(str(failed.get("detail", "")), hidden, failed["on"])}
        yield f"- {_code(failed['on'])}{where}: {one_line(failed['why'])} – not met{_rows(shown)}"
        yield from _keys([masked_key(key, hidden, failed["on"]) for key in failed.get("keys") or ()])


def report_address(run: Run) -> str:
    """Where the report of the run's date is shown, below the address of this Airflow."""
    below = urlsplit(conf.get("api", "base_url", fallback="")).path.rstrip("/")
    return f"{below}/seamline/page?" + urlencode({"sync": run.sync, "business_date": str(run.business_date)})


def _differing(destination: str, table: TableVerdict, keyed: set[str]) -> Iterator[str]:
    breaks = [counted(table.breaks_total, "break")] if table.breaks_total or table.verdict is Verdict.BREAK else []
    what = ", ".join([table.verdict, *breaks, *([one_line(table.reason)] if table.reason else [])])
    yield f"- {_code(table.table)} in {destination}: {what}"
    if table.table in keyed:
        # A break of the whole table names no row.
        yield from _keys([one.key for one in table.breaks if one.key != "{}"])


def _rows(failed: dict[str, object]) -> str:
    rows = failed.get("rows")
    if rows is None:
        return f" ({failed['detail']})" if failed.get("detail") else ""
    return f", {rows} row" if rows == 1 else f", {rows} rows"


def _keys(keys: Sequence[str]) -> Iterator[str]:
    shown = [_code(key) for key in keys[:KEYS_SHOWN]]
    if shown:
        yield f"    - {', '.join(shown)}{' …' if len(keys) > KEYS_SHOWN else ''}"


def _code(text: str) -> str:
    """As code: nothing in it is Markdown, and no cursor moves."""
    return f"`{one_line(text).replace('`', '´')[:_KEY_LETTERS_MAX]}`"


def _around(run: Run, approvers: Sequence[str]) -> Iterator[str]:
    yield f"[The report of this date]({report_address(run)}) shows the rows that differ, with their values,"
    yield "and the keys of the rows that break a rule."
    yield ""
    if approvers:
        names = " or ".join(_code(name) for name in approvers)
        yield f"**Only {names} may answer**, as the sync's `approvers` say. Anybody else sees the buttons too, and"
        yield "Airflow answers them *Access Denied*."
    else:
        yield "**Whoever may run this DAG may answer**: the sync declares no `approvers`."
    yield ""
    yield "Approve: the cut is published with your name and reason, its verdict stays what it is. Reject: it is not"
    yield "published and the run fails. The form takes neither without a reason."
