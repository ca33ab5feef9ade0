"""What carrying a cut on asks of a relational server, where no server is needed to see it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date
from typing import Any

import pytest

from seamline.domain.catalogue import Column, Kind, Table
from seamline.domain.date_before import PublishedTable
from seamline.domain.digest import Segment
from seamline.plan.model import DestinationPlan
from seamline.ports import Load
from seamline.sinks.mariadb.kind import KIND
from seamline.sinks.relational import carry_on
from seamline.sinks.relational.statements import copies_index, number_copies

DESTINATION = DestinationPlan("warehouse", KIND.name, "warehouse", "settlement")
AT = Column("at", Kind.DATETIME, "datetime(6)")
PLACE = "`settlement_stage`.`note~1`"


class Recorded:
    """A session that answers nothing and keeps what it was asked."""

    def __init__(self) -> None:
        self.statements: list[str] = []

    @contextmanager
    def cursor(self) -> Iterator["Recorded"]:
        yield self

    def execute(self, statement: str, _: Sequence[Any] | None = None) -> int:
        self.statements.append(statement)
        return 3


@pytest.mark.parametrize("key", [(), ("at",)], ids=["without-a-key", "with-one"])
def test_rows_of_an_earlier_cut_that_are_equal_get_the_numbers_of_their_copies(
    monkeypatch: pytest.MonkeyPatch, key: tuple[str, ...]
) -> None:
    session = Recorded()

    @contextmanager
    def opened(*_: Any) -> Iterator[Recorded]:
        yield session

    monkeypatch.setattr(carry_on, "_opened", opened)
    load = Load(Table("note", (AT,), key), "settlement_stage.note~1", 2)
    base = PublishedTable("note", date(2026, 3, 5), 1, "settlement_cut", "note_20260305_v1")
    dialect: Any = None
    read = Segment("note", "at", "2026-03-06 00:00:00")
    assert carry_on.take_over(DESTINATION, load, base, dialect, read=read) == 3
    assert session.statements[0].startswith(f"INSERT INTO {PLACE} ")
    assert session.statements[1:] == ([] if key else [number_copies(PLACE)])
    assert copies_index(PLACE) not in session.statements, "it has been there since the load"
