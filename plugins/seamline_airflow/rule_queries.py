"""The declared rules of a sync as queries for the rows that break them, in SQL that PostgreSQL, MariaDB and MySQL take.

Each is about one staged table, `{batch}`, and gives one row for each group that breaks the rule. Pure, without GX.
"""

from collections.abc import Callable, Sequence

from seamline.plan.checks import RulePlan, Says
from seamline_airflow.expectations import Expectation

# Puts quotes around a name, as the database writes them.
Quote = Callable[[str], str]
TYPE = "unexpected_rows_expectation"


def expectation_of(rule: RulePlan, quote: Quote) -> Expectation:
    """Of a rule about one table. A ROLL_FORWARD needs two dates, and is no query (`roll_forward`)."""
    write, why = _QUERIES[rule.says]
    query, shown = write(rule, quote)
    named = ", ".join(rule.by or rule.columns)
    return Expectation(TYPE, {"unexpected_rows_query": query}, f"{rule.name}: {why.format(by=named)}", shown=shown)


_Written = tuple[str, tuple[str, ...]]


def _balance(rule: RulePlan, quote: Quote) -> _Written:
    """A group whose amounts are all NULL adds up to 0, as one without rows does."""
    by = _list(rule.by, quote)
    sums = [f"COALESCE(SUM({quote(column)}), 0)" for column in rule.columns]
    called = ("total",) if len(sums) == 1 else ("total_debit", "total_credit")
    shown = ", ".join(f"{total} AS {quote(name)}" for total, name in zip(sums, called, strict=True))
    query = f"SELECT {by}, {shown} FROM {{batch}} GROUP BY {by} HAVING {sums[0]} <> {(*sums, '0')[1]}"
    return query, (*rule.by, *called)


def _no_gap(rule: RulePlan, quote: Quote) -> _Written:
    number = quote(rule.columns[0])
    by = "".join(f"{quote(name)}, " for name in rule.by)
    parted = f"PARTITION BY {_list(rule.by, quote)} " if rule.by else ""
    once = f"SELECT DISTINCT {by}{number} FROM {{batch}} WHERE {number} IS NOT NULL"
    before = f"SELECT {by}{number}, LAG({number}) OVER ({parted}ORDER BY {number}) AS number_before FROM ({once}) AS o"
    query = (
        f"SELECT {by}number_before + 1 AS first_missing, {number} - 1 AS last_missing FROM ({before}) AS b"
        f" WHERE {number} > number_before + 1"
    )
    return query, (*rule.by, "first_missing", "last_missing")


def _unique(rule: RulePlan, quote: Quote) -> _Written:
    columns = _list(rule.columns, quote)
    known = " AND ".join(f"{quote(name)} IS NOT NULL" for name in rule.columns)
    query = f"SELECT {columns}, COUNT(*) AS copies FROM {{batch}} WHERE {known} GROUP BY {columns} HAVING COUNT(*) > 1"
    return query, (*rule.columns, "copies")


def _list(names: Sequence[str], quote: Quote) -> str:
    return ", ".join(map(quote, names))


_QUERIES: dict[Says, tuple[Callable[[RulePlan, Quote], _Written], str]] = {
    Says.BALANCE: (_balance, "debits equal credits in each group of {by}"),
    Says.NO_GAP: (_no_gap, "no number is missing ({by})"),
    Says.UNIQUE: (_unique, "no two rows have the same {by}"),
}
