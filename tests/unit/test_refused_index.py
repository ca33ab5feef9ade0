"""Which index has refused a row, in the words of MariaDB and MySQL."""

import pytest

from seamline.sinks.relational.delete_insert import index_in


@pytest.mark.parametrize("table", ["account", "O'Neil's \"new\" deal"])
@pytest.mark.parametrize("index", ["email", "by 'e-mail'", "a.b"])
def test_the_index_is_found_whatever_quotes_names_have_and_whether_its_table_stands_before_it(
    table: str, index: str
) -> None:
    for named in (index, f"{table}.{index}"):
        assert index_in(f"Duplicate entry '…' for key '{named}'", table) == index
    assert index_in("Lost connection", table) == ""
