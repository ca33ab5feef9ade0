"""What tests make in the servers that they share."""

import pytest

from seamline.adapters.connections import resolve
from tests.integration.databases import postgres, postgres_database


@pytest.mark.usefixtures("stack")
def test_the_database_of_a_test_that_fails_is_dropped_with_it() -> None:
    with pytest.raises(ZeroDivisionError), postgres_database("of_one_that_fails"):
        raise ZeroDivisionError
    with postgres(resolve("postgres_root")) as session:
        found = session.execute("SELECT FROM pg_database WHERE datname = 'of_one_that_fails'").fetchall()
    assert found == []
