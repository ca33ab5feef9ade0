"""Rows that differ, asked of the platform database as they are shown: some of one comparison, or one row over dates.

A comparison may have listed many of them, so whatever selects, orders or counts them happens in the database.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from psycopg.rows import dict_row

from seamline.domain.break_work import WorkState
from seamline.domain.runs import Scope
from seamline.domain.verdict import Break, BreakType
from seamline.platform import rows
from seamline.platform.database import Database, Session

HISTORY_MAX = 400
# What has come and gone between two comparisons is counted in full and named up to here.
CHANGES_NAMED = 10


class Order(StrEnum):
    """Equal ones stand as they were found."""

    FOUND = "found"
    KEY = "key"
    TYPE = "type"


# Each is the beginning of an index, so that a page of many rows is read without sorting them.
_ORDERS = {Order.FOUND: "", Order.KEY: 'left(key, 100) collate "C"', Order.TYPE: "type"}


@dataclass(frozen=True, slots=True)
class Compared:
    """One comparison: of a run, in one destination, of live tables or of a cut."""

    run_id: str
    destination: str
    scope: Scope = Scope.CUT


@dataclass(frozen=True, slots=True)
class Place:
    """Where a break stands in its comparison: the number of its table, and its own."""

    table: int
    ordinal: int

    def __str__(self) -> str:
        return f"{self.table}.{self.ordinal}"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which breaks, in which order. `text`: what their keys contain, in either case. `state`: in which they are now.
    `owner`: whose they are; "" is nobody's, None anybody's. `after`: only those behind it."""

    table: str = ""
    type: BreakType | None = None
    text: str = ""
    state: WorkState | None = None
    owner: str | None = None
    order: Order = Order.FOUND
    after: Place | None = None
    limit: int = 50


@dataclass(frozen=True, slots=True)
class StoredBreak:
    """`first_date`: the earliest business date whose cut has it in this destination; `first_at`: when it was first
    found in a comparison of this scope."""

    break_id: str
    found: Break
    place: Place
    first_date: date | None = None
    first_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Money:
    """A column that is summed as a control total, and the columns whose values its groups are."""

    table: str
    column: str
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Count:
    """How many of the listed breaks of a table are of this type."""

    table: str
    type: BreakType
    breaks: int


@dataclass(frozen=True, slots=True)
class Amount:
    """What the breaks of one type differ by in a summed column: destination less source, a missing side as 0. `group`
    is None where neither the differing columns nor what stands beside them says it; a row of two groups counts in both.
    `gross` adds them up without their signs."""

    table: str
    type: BreakType
    column: str
    group: tuple[str, ...] | None
    breaks: int
    net: Decimal
    gross: Decimal


@dataclass(frozen=True, slots=True)
class Changes:
    """Between two comparisons, by identity: how many listed breaks only one of them has, and the first of them."""

    new: int
    gone: int
    first_new: tuple[StoredBreak, ...]
    first_gone: tuple[StoredBreak, ...]


@dataclass(frozen=True, slots=True)
class Sighting:
    """One comparison that has found the break."""

    run_id: str
    destination: str
    scope: Scope
    business_date: date | None
    at: datetime
    found: Break


@dataclass(frozen=True, slots=True)
class InCuts:
    """The business dates whose cuts have found a break: the first and the last of them, and how many there are.
    `is_standing`: the newest cut that has looked for it has it. One of a later date has not looked for a row of an
    earlier date in a table that is read by its dates."""

    first: date
    last: date
    dates: int
    is_standing: bool


_IN_CUTS = """
select min(r.business_date), max(r.business_date), count(distinct r.business_date), exists (
    select from break_work w where (w.sync, w.break_id) = (%(sync)s, %(break_id)s) and w.in_cut <> '')
from break b join reconciliation r using (reconciliation_id)
where b.break_id = %(break_id)s and r.sync = %(sync)s and r.scope = 'cut'
"""


class PlatformBreaks:
    def __init__(self, database: Database) -> None:
        self._database = database

    def close(self) -> None:
        self._database.close()

    def some(self, compared: Compared, wanted: Wanted) -> tuple[StoredBreak, ...]:
        """At most `wanted.limit`; nothing where the comparison is not known."""

        def work(session: Session) -> tuple[StoredBreak, ...]:
            number = number_of(session, compared)
            statement, arguments = selection(session, number, wanted)
            found = _read(session, statement, arguments)
            return _with_first(session, compared.scope, found)

        return self._database.transact(work)

    def number(self, compared: Compared, wanted: Wanted) -> int:
        """How many the filter lets pass, on all pages."""

        def work(session: Session) -> int:
            condition, arguments = chosen(session, number_of(session, compared), wanted)
            row = session.execute(f"select count(*) from break where {condition}".encode(), arguments).fetchone()
            return int(row[0]) if row else 0

        return self._database.transact(work)

    def counts(self, compared: Compared) -> tuple[Count, ...]:
        """By table and type, in the order of the tables in the comparison."""

        def work(session: Session) -> tuple[Count, ...]:
            cursor = session.execute(
                "select table_name, type, count(*) from break where reconciliation_id = %s"
                " group by table_ordinal, table_name, type order by table_ordinal, type",
                (number_of(session, compared),),
            )
            return tuple(Count(table, BreakType(kind), number) for table, kind, number in cursor)

        return self._database.transact(work)

    def amounts(self, compared: Compared, money: Sequence[Money]) -> tuple[Amount, ...]:
        """Of those breaks that have a number in one of the columns; others have no amount."""

        def work(session: Session) -> tuple[Amount, ...]:
            number = number_of(session, compared)
            return tuple(amount for one in money for amount in _amounts(session, number, one))

        return self._database.transact(work)

    def changes(self, newer: Compared, older: Compared) -> Changes:
        """What `newer` has found against `older`."""

        def work(session: Session) -> Changes:
            mine, theirs = number_of(session, newer), number_of(session, older)
            new, first_new = _only_in(session, mine, theirs)
            gone, first_gone = _only_in(session, theirs, mine)
            return Changes(new, gone, first_new, first_gone)

        return self._database.transact(work)

    def in_cuts(self, sync: str, break_id: str) -> InCuts | None:
        """None where no cut has found it."""

        def work(session: Session) -> InCuts | None:
            row = session.execute(_IN_CUTS, {"sync": sync, "break_id": break_id}).fetchone()
            return InCuts(*row) if row and row[0] else None

        return self._database.transact(work)

    def history(self, sync: str, break_id: str) -> tuple[Sighting, ...]:
        """The newest comparisons of the sync that have found it, at most `HISTORY_MAX`, the newest first."""

        def work(session: Session) -> tuple[Sighting, ...]:
            cursor = session.cursor(row_factory=dict_row)
            cursor.execute(
                "select b.*, r.run_id, r.destination, r.scope, r.business_date, r.ended_at"
                " from break b join reconciliation r using (reconciliation_id)"
                " where b.break_id = %s and r.sync = %s order by r.ended_at desc, r.destination limit %s",
                (break_id, sync, HISTORY_MAX),
            )
            return tuple(
                Sighting(
                    row["run_id"],
                    row["destination"],
                    Scope(row["scope"]),
                    row["business_date"],
                    row["ended_at"],
                    rows.break_of(row),
                )
                for row in cursor
            )

        return self._database.transact(work)


def selection(session: Session, number: int, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """The statement for the breaks of the comparison with this number, and its arguments."""
    first = _ORDERS[wanted.order]
    order = ", ".join(filter(None, (first, "table_ordinal", "ordinal")))
    condition, arguments = chosen(session, number, wanted)
    arguments["limit"] = wanted.limit
    if wanted.after:
        arguments |= {"after_table": wanted.after.table, "after_ordinal": wanted.after.ordinal}
        behind = ", ".join(filter(None, (first and "%(after)s", "%(after_table)s", "%(after_ordinal)s")))
        condition += f" and ({order}) > ({behind})"
        if first:
            arguments["after"] = _value_at(session, number, wanted.after, first)
    return f"select * from break where {condition} order by {order} limit %(limit)s", arguments


def chosen(session: Session, number: int, wanted: Wanted) -> tuple[str, dict[str, Any]]:
    """The condition of those breaks of the comparison that the filter lets pass, on all pages; and its arguments."""
    conditions = ["reconciliation_id = %(number)s"]
    arguments: dict[str, Any] = {"number": number}
    if wanted.table:
        conditions.append("table_ordinal = %(table)s")
        arguments["table"] = _ordinal(session, number, wanted.table)
    if wanted.type:
        conditions.append("type = %(type)s")
        arguments["type"] = wanted.type.value
    if wanted.text:
        conditions.append("key ilike %(text)s escape '!'")
        arguments["text"] = f"%{_literal(wanted.text)}%"
    known = {"state": wanted.state and wanted.state.value, "owner": wanted.owner}
    of_work = {name: value for name, value in known.items() if value is not None}
    if of_work:
        held = " and ".join(f"w.{name} = %({name})s" for name in of_work)
        conditions.append(f"exists (select from break_now w where w.break_id = break.break_id and {held})")
    return " and ".join(conditions), arguments | of_work


def _literal(text: str) -> str:
    """As a pattern that means nothing but itself."""
    return text.replace("!", "!!").replace("%", "!%").replace("_", "!_")


def number_of(session: Session, compared: Compared) -> int:
    row = session.execute(
        "select reconciliation_id from reconciliation where (run_id, destination, scope) = (%s, %s, %s)",
        (compared.run_id, compared.destination, compared.scope.value),
    ).fetchone()
    # No comparison has this number.
    return -1 if row is None else int(row[0])


def _ordinal(session: Session, number: int, table: str) -> int:
    row = session.execute(
        "select ordinal from table_verdict where reconciliation_id = %s and table_name = %s", (number, table)
    ).fetchone()
    return -1 if row is None else int(row[0])


def _value_at(session: Session, number: int, place: Place, expression: str) -> str:
    # `expression` is one of `_ORDERS`, never input.
    row = session.execute(
        f"select {expression} from break where (reconciliation_id, table_ordinal, ordinal) = (%s, %s, %s)".encode(),
        (number, place.table, place.ordinal),
    ).fetchone()
    return "" if row is None else str(row[0])


def _read(session: Session, statement: str, arguments: Mapping[str, Any] | Sequence[Any]) -> list[StoredBreak]:
    cursor = session.cursor(row_factory=dict_row)
    # `statement` is text of this file.
    cursor.execute(statement.encode(), arguments)
    return [
        StoredBreak(row["break_id"], rows.break_of(row), Place(row["table_ordinal"], row["ordinal"])) for row in cursor
    ]


def _with_first(session: Session, scope: Scope, found: Sequence[StoredBreak]) -> tuple[StoredBreak, ...]:
    cursor = session.execute(
        "select b.break_id, min(r.business_date), min(r.ended_at) from break b join reconciliation r"
        " using (reconciliation_id) where b.break_id = any(%s) and r.scope = %s group by b.break_id",
        ([one.break_id for one in found], scope.value),
    )
    first = {break_id: (day, at) for break_id, day, at in cursor}
    return tuple(StoredBreak(one.break_id, one.found, one.place, *first[one.break_id]) for one in found)


# A longer text is no amount, and might be more than `numeric` takes. A bound within the pattern would do too, but the
# server takes long to compile one, in every session again.
_DIGITS_MAX = 1_000
# The path to a value itself: of JSON its text.
_WHOLE = "'{}'"
_NUMBER = "'^[-+]?[0-9]+([.][0-9]+)?$'"


def as_number(text: str) -> str:
    """The expression for the number that a text is; null for one that is none. `text` is an expression."""
    return f"case when length({text}) < {_DIGITS_MAX} and {text} ~ {_NUMBER} then ({text})::numeric end"


def apart(rows: str, kept: str, column: str, by: Sequence[str]) -> str:
    """A statement for what breaks differ by in a summed column: `kept`, `"group"` and `apart`, destination less source,
    a missing side as 0. A row that is of another group on the other side, as of another currency, differs by all of its
    amount in both. A null is what its side holds: no amount, and a group of its own. `rows`: what is selected from,
    with `kept` and the values of breaks; `column` and `by` are placeholders.

    Each value is taken out of its JSON once (`offset 0`): an expression that names it three times would read the
    document three times. It stays JSON until it is chosen: a null of JSON is a value, and a name that a side does not
    have is none.
    """
    texts = ", ".join(
        f"source_values->{name} as s{n}, destination_values->{name} as d{n}, beside->{name} as b{n}"
        for n, name in enumerate((column, *by))
    )
    groups = range(1, 1 + len(by))
    of_mine, of_theirs = (
        f"array[{', '.join(f'coalesce({one}{n}, b{n}, {other}{n}) #>> {_WHOLE}' for n in groups)}]::text[]"
        for one, other in ("sd", "ds")
    )
    numbers = f"""
        select {kept}, {of_mine} as of_mine, {of_theirs} as of_theirs, {as_number("mine")} as mine,
            {as_number("theirs")} as theirs
        from (
            select *, coalesce(s0, b0) #>> {_WHOLE} as mine, coalesce(d0, b0) #>> {_WHOLE} as theirs
            from (select {kept}, {texts} from {rows} offset 0) as texts offset 0
        ) as amounts offset 0
    """
    return f"""
        select {kept}, "group", apart from ({numbers}) as numbers cross join lateral (values
            (of_theirs, case when of_mine = of_theirs then coalesce(theirs, 0) - coalesce(mine, 0) else theirs end),
            (of_mine, case when of_mine = of_theirs then null else -mine end)
        ) as one ("group", apart) where apart <> 0
    """


def _amounts(session: Session, number: int, money: Money) -> list[Amount]:
    rows_of_table = "break where reconciliation_id = %(number)s and table_ordinal = %(table)s"
    by = [f"%(by{place})s" for place, _ in enumerate(money.by)]
    statement = f"""
        select type, "group", count(*), sum(apart), sum(abs(apart))
        from ({apart(rows_of_table, "type", "%(column)s", by)}) as differing
        group by type, "group" order by type, "group"
    """
    arguments: dict[str, Any] = {"number": number, "column": money.column}
    arguments |= {"table": _ordinal(session, number, money.table)}
    arguments |= {f"by{place}": name for place, name in enumerate(money.by)}
    return [
        Amount(
            money.table, BreakType(kind), money.column, None if None in values else tuple(values), breaks, net, gross
        )
        for kind, values, breaks, net, gross in session.execute(statement.encode(), arguments)
    ]


def _only_in(session: Session, number: int, other: int) -> tuple[int, tuple[StoredBreak, ...]]:
    condition = (
        "reconciliation_id = %(number)s and not exists (select from break other"
        " where other.break_id = break.break_id and other.reconciliation_id = %(other)s)"
    )
    arguments = {"number": number, "other": other}
    row = session.execute(f"select count(*) from break where {condition}".encode(), arguments).fetchone()
    first = f"select * from break where {condition} order by table_ordinal, ordinal limit {CHANGES_NAMED}"
    return (int(row[0]) if row else 0), tuple(_read(session, first, arguments))
