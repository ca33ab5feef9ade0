"""Which tables of a sync the text of a job names."""

import pytest

from seamline.domain.cut_job import named_in

TABLES = ("account", "entry", "audit")


@pytest.mark.parametrize(
    ("text", "of", "named"),
    [
        ("-- by account\nSELECT id FROM entry", "x.sql", ("entry",)),
        ("/* of account,\n audit */ SELECT id FROM entry", "x.sql", ("entry",)),
        ("SELECT '--' AS mark, id FROM account", "x.sql", ("account",)),
        ("SELECT account_id FROM `entry`", "x.sql", ("entry",)),
        ("SELECT id FROM account JOIN audit", "x.sql", ("account", "audit")),
        ("def transform(tables):  # of account\n    return tables['entry']", "x.py", ("entry",)),
        ('def transform(tables):\n    return tables["entry"].where("a = \'#\'").join(tables["audit"])', "x.py",
         ("entry", "audit")),
    ],
)  # fmt: skip
def test_a_job_names_the_tables_that_stand_in_its_text_and_not_in_its_comments(
    text: str, of: str, named: tuple[str, ...]
) -> None:
    assert named_in(text, TABLES, of=of) == named
