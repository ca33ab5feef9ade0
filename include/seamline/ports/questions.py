"""What may be asked of a source beside its tables' rows: whether its day is closed, or its delivery is there."""

from collections.abc import Sequence
from datetime import date
from typing import Any, Protocol, runtime_checkable

from seamline.domain.day_closed import Look

# Of a table whose values are asked for, as a system date in a row for each unit of a bank.
VALUES_MAX = 1_000


@runtime_checkable
class AnswersQuestions(Protocol):
    """A source that can be asked, in a session of the reader's login that may write nothing."""

    def ask(self, statement: str, business_date: date) -> Sequence[Sequence[Any]]:
        """The rows of a query in which `:date` stands for the date."""

    def values_of(self, table: str, column: str) -> Sequence[Any]:
        """Of every row of a table, named as a sync names one, up to `VALUES_MAX`. For tables of a few rows."""


@runtime_checkable
class Delivers(Protocol):
    """A source that has tables of their own for each business date."""

    def look(self, business_date: date, tables: Sequence[str]) -> Look:
        """Whether they are there. TransientError: the source does not answer."""
