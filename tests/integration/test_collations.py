"""Texts of MariaDB whose character set only a collation says, in statements that came after the capture began."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.conftest import RunningStack
from tests.integration.captured import Captured, captured, rows_in_log
from tests.integration.kinds import LENIENT

# The server's own default is utf8mb4; each of these is in another set, and columns of other types stand between them.
SAID_BY_COLLATION = """CREATE TABLE letters (
    id INT PRIMARY KEY, of_table VARCHAR(20), kind ENUM('a', 'b'), greek VARCHAR(20) COLLATE greek_bin, tag UUID,
    place POINT, fixed CHAR(5) COLLATE cp1251_general_cs, raw VARBINARY(9), modern TEXT COLLATE utf8mb4_uca1400_ai_ci,
    doc JSON, bits BIT(9), thai VARCHAR(20) COLLATE tis620_bin, choice SET('x', 'y')
) COLLATE latin1_german1_ci"""
WRITTEN = (
    "1, 'Größe €', 'b', 'Ωμέγα', '6ccd780c-baba-1026-9564-5b8c656024db', ST_GeomFromText('POINT(1 2)'), 'Жук',"
    " x'00ff', '漢字 😀',"
    " '{\"ü\": 1}', 5, 'ภาษา', 'x,y'"
)
READ = {
    "of_table": "Größe €", "kind": "b", "greek": "Ωμέγα", "fixed": "Жук", "modern": "漢字 😀", "doc": '{"ü": 1}',
    "thai": "ภาษา", "choice": "x,y", "raw": "AP8=", "tag": "6ccd780c-baba-1026-9564-5b8c656024db",
}  # fmt: skip


@pytest.fixture
def bank(stack: RunningStack) -> Iterator[Captured]:
    with captured("letters") as one:
        yield one


def every_letter(character_set: str) -> str:
    """Also those that are well formed and no letter, which the server shows as a question mark."""
    pairs = "BETWEEN 32 AND 126" if character_set == "swe7" else "BETWEEN 32 AND 255 OR n > 32768"
    letter = f"CHAR(n USING {character_set})"
    numbers = f"(SELECT seq n FROM seq_0_to_65535) s WHERE n {pairs}"
    return f"(SELECT GROUP_CONCAT({letter} ORDER BY n SEPARATOR '') FROM {numbers})"


def texts(row: dict[str, Any]) -> dict[str, Any]:
    return {name: row[name] for name in READ}


def test_a_text_is_read_in_the_character_set_that_the_server_names(bank: Captured) -> None:
    bank.ensure(bank.with_tables("account"))
    bank.execute(SAID_BY_COLLATION)
    sets = ("big5", "cp932", "euckr", "gb2312", "gbk", "sjis", "swe7")
    columns = ", ".join(f"in_{name} LONGTEXT CHARACTER SET {name}" for name in sets)
    bank.execute(f"CREATE TABLE of_two_bytes (id INT PRIMARY KEY, {columns}, k ENUM('漢字', '汉') CHARACTER SET gbk)")
    bank.ensure(bank.with_tables("account", "letters", "of_two_bytes"))
    bank.execute(
        f"INSERT INTO letters VALUES ({WRITTEN})",
        "UPDATE letters SET id = 2",
        "ALTER TABLE letters MODIFY of_table VARCHAR(20) COLLATE utf8mb4_bin, MODIFY fixed CHAR(5) COLLATE koi8r_bin,"
        " MODIFY thai VARCHAR(20) COLLATE utf8mb3_bin",
        f"INSERT INTO letters VALUES ({WRITTEN})",
        "DELETE FROM letters",
    )
    rows = rows_in_log(bank, "letters", 6)
    assert [row["id"] for row in rows] == [1, 1, 2, 1, 1, 2]
    assert [texts(row) for row in rows] == [READ] * 6
    all_letters = ", ".join(every_letter(name) for name in sets)
    bank.execute(
        "SET SESSION group_concat_max_len = 1000000",
        f"{LENIENT} INSERT INTO of_two_bytes SELECT 1, {all_letters}, '汉'",
    )
    (row,) = rows_in_log(bank, "of_two_bytes", 1)
    shown = ", ".join(f"CONVERT(in_{name} USING utf8mb4)" for name in sets)
    assert [tuple(row.values())[1:]] == bank.rows_of(f"SELECT {shown}, k FROM of_two_bytes")
    # As few as the smallest of them has.
    assert all(len(row[f"in_{name}"]) > (7000 if name != "swe7" else 90) for name in sets)


def test_texts_whose_character_set_nothing_says_stop_the_capture_with_the_cure(bank: Captured) -> None:
    bank.ensure(bank.with_tables("account"))
    bank.execute("SET GLOBAL binlog_row_metadata = NO_LOG")
    try:
        bank.execute("INSERT INTO later VALUES (1, 1, 'not captured')", "INSERT INTO account VALUES (1, 1, 'x')")
    finally:
        bank.execute("SET GLOBAL binlog_row_metadata = FULL")
    bank.wait_until_failed()
    status = bank.client.status(bank.connector.name)
    assert status is not None
    assert "binlog_row_metadata was NO_LOG when a row of letters.account was written" in status.trace
    assert "onboard the syncs of this source again" in status.cure
