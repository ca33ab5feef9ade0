"""Keys of one side as PostgreSQL is asked for them."""

import pytest

from seamline.databases.postgres.canonical import literal
from seamline.domain.catalogue import Column, Kind


@pytest.mark.parametrize(
    ("length", "number", "is_held"),
    [
        (16, 2**15 - 1, True),
        (16, 2**15, False),
        (24, 2**23, True),
        (32, -(2**31), True),
        (32, 2**31, False),
        (33, 2**40, True),
        (64, 2**63, False),
        (0, 7, True),
    ],
)
def test_a_number_that_the_column_cannot_hold_is_asked_for_as_null(length: int, number: int, is_held: bool) -> None:
    column = Column("id", Kind.INTEGER, "int", length=length)
    assert literal(column, str(number)) == (f"'{number}'" if is_held else "NULL")
