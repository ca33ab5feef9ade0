"""Lines and values of a CSV file that readers disagree about: each is refused by file, line and column, or pinned."""

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seamline.domain.errors import GateFailed
from seamline.sources.files import lines
from seamline.sources.files.reading import held, view_of
from seamline.sources.files.source import FilesSource as OpenedFiles
from tests.unit.test_files_source import DAY, declared, planned

TEXTS = ("text", "text")
DOUBLED = "each quote in it is doubled"


def taken(
    folder: Path,
    content: str | bytes,
    types: Sequence[str] = TEXTS,
    *,
    form: str = "",
    encoding: str = "utf-8",
    **csv: Any,
) -> list[tuple[Any, ...]]:
    """The rows of a delivery of one file `t.csv`, of columns a, b and so on. GateFailed: it is refused."""
    (folder / f"{DAY}").mkdir(exist_ok=True)
    data = content.encode(encoding) if isinstance(content, str) else content
    (folder / f"{DAY}" / "t.csv").write_bytes(data)
    files = [{"name": "t.csv", "bytes": len(data)}]
    (folder / f"{DAY}" / "control.json").write_text(json.dumps({"tables": [{"table": "t", "files": files}]}))
    (folder / f"{DAY}" / "_SUCCESS").touch()
    columns = [{"name": name, "type": one, "form": form} for name, one in zip("abc", types, strict=False)]
    said = {"column_names": False, "encoding": encoding, **csv}
    source = planned(declared(location=str(folder), csv=said, tables=[{"table": "t", "columns": columns}]))
    with held(source, DAY, OpenedFiles(source).catalogue(["t"])) as found:
        batches = list(view_of(found)._tables["t"][1]())  # noqa: SLF001 (the rows that every reader is given)
    return [tuple(row.values()) for batch in batches for row in batch.to_pylist()]


def refusal(folder: Path, content: str | bytes, types: Sequence[str] = TEXTS, **how: Any) -> str:
    with pytest.raises(GateFailed) as refused:
        taken(folder, content, types, **how)
    assert "nothing was loaded" in refused.value.hint
    return str(refused.value)


# ---- lines ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('a,b\n"x"y,b\n', "t.csv has in line 2 the a '\"x\"y', with text behind its closing quote"),
        ('a,b\n"x" ,b\n', "in line 2 the a '\"x\" ', with text behind its closing quote"),
        ('""x,b\n', "in line 1 the a '\"\"x', with text behind its closing quote"),
        ('a,b\n"a\nb","c"d\n', "in line 3 the b '\"c\"d', with text behind its closing quote"),
        ('a,x"y\n', "in line 1 the b 'x\"y', with a quote amid a text that stands in none"),
        ('a, "x"\n', "in line 1 the b ' \"x\"', with a quote amid a text that stands in none"),
        ('a,b\nx,"y\n', "in line 2 the b '\"y', whose quote nothing closes"),
        ('a,b\nx,"y\nc,d\n', "in line 2 the b '\"y', whose quote nothing closes"),
        ('"a\n,b\n', "in line 1 the a '\"a', whose quote nothing closes"),
    ],
)
def test_a_quote_that_readers_disagree_about_is_refused_by_line_and_column(
    content: str, said: str, tmp_path: Path
) -> None:
    found = refusal(tmp_path, content)
    assert said in found
    assert DOUBLED in found
    assert "`csv: {quotes: false}`" in found


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\rc,d\n", "has in line 1 a CR alone in or behind b"),
        ("a,b\nx\ry,b\n", "has in line 2 a CR alone in or behind a"),
        ("a,b\r\r\n", "has in line 1 a CR alone in or behind b"),
        ('"a"\r,b\n', "has in line 1 a CR alone in or behind a"),
        ("a,b\nc\n", "has in line 2 1 of 2 fields: it ends behind a"),
        ("a,b\n \nc,d\n", "has in line 2 1 of 2 fields: it ends behind a"),
        ("a,b\n\nc,d,e\n", "has in line 3 more than 2 fields: another one begins behind b"),
        ('"a\nb",b\nc,d,\n', "has in line 3 more than 2 fields: another one begins behind b"),
    ],
)
def test_a_line_of_other_fields_or_ends_is_refused_by_its_number(content: str, said: str, tmp_path: Path) -> None:
    assert f"t.csv {said}" in refusal(tmp_path, content)


def test_lines_are_counted_from_the_beginning_of_the_file(tmp_path: Path) -> None:
    assert "in line 4 the b" in refusal(tmp_path, 'H,1\nb,a\n1,2\n"x"y,2\n', column_names=True, header=["H", "*"])


@pytest.mark.parametrize("encoding", ["gb18030", "gbk", "big5", "shift_jis"])
def test_bytes_of_a_letter_are_no_delimiter_of_a_line(encoding: str, tmp_path: Path) -> None:
    """In each of these `|` is the second byte of a letter."""
    letter = next(
        text for first in range(0x81, 0xFE) if (text := bytes((first, 0x7C)).decode(encoding, "ignore")) and text != "|"
    )
    assert letter.encode(encoding)[1:] == b"|"
    assert taken(tmp_path, f'{letter}|"x"\n', encoding=encoding, delimiter="|") == [(letter, "x")]
    said = refusal(tmp_path, f'{letter}|b\n{letter}|"x"{letter}\n', encoding=encoding, delimiter="|")
    assert f"in line 2 the b '\"x\"{letter}', with text" in said


@pytest.mark.parametrize("encoding", ["utf-8", "gbk"])
@pytest.mark.parametrize("content", [b'\xff\n"x",b\n', b"a\n\xff,b\n", b'a,"\xff"\n', b"a,\xff\n"])
def test_bytes_that_are_no_letters_are_said_as_that_or_by_the_line_before_them(
    content: bytes, encoding: str, tmp_path: Path
) -> None:
    said = refusal(tmp_path, content, encoding=encoding)
    assert re.search(r"t\.csv (cannot be read as CSV: .*(UTF8|decode)|has in line 1 1 of 2)", said)


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('"x""y","a\r\nb\rc,"\r\n', [('x"y', "a\r\nb\rc,")]),
        ('"",\n', [("", None)]),
        ("a\0b,\0\n", [("a\0b", "\0")]),
        (" a , b\x1a\n", [(" a ", " b\x1a")]),
        ("a\x0bb\x0c,\x85\u2028\n", [("a\x0bb\x0c", "\x85\u2028")]),
        ('\n\r\n"a",b\r\n\n', [("a", "b")]),
    ],
)
def test_what_all_readers_take_alike_stays_as_it_stands(
    content: str, rows: list[tuple[Any, ...]], tmp_path: Path
) -> None:
    assert taken(tmp_path, content) == rows


def test_a_writer_who_knows_no_quotes_is_declared_so(tmp_path: Path) -> None:
    content = 'a|5" pipe\n"b"|"\n""|"c"d\n'
    assert "with a quote amid" in refusal(tmp_path, content, delimiter="|")
    rows = [("a", '5" pipe'), ('"b"', '"'), ('""', '"c"d')]
    assert taken(tmp_path, content, delimiter="|", quotes=False) == rows
    assert "a CR alone" in refusal(tmp_path, "a|b\rc|d\n", delimiter="|", quotes=False)
    assert "in line 2 1 of 2 fields" in refusal(tmp_path, '"|b\n"c\nd"|e\n', delimiter="|", quotes=False)


@pytest.mark.parametrize("names", ['a,"b"x\n', 'a,"b\n'])
def test_a_line_of_names_whose_quotes_readers_disagree_about_is_refused(names: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, f"{names}1,2\n", column_names=True)
    assert "has a line with the names of columns that cannot be read as CSV" in said


@given(texts=st.lists(st.tuples(*[st.text(alphabet='a",\r\n张', max_size=4)] * 2), max_size=6), size=st.integers(1, 9))
def test_what_is_written_by_the_rule_is_taken_however_it_is_cut_into_pieces(
    texts: list[tuple[str, str]], size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    def quoted(text: str) -> str:
        return f'"{text.replace(chr(34), 2 * chr(34))}"'

    folder = tmp_path_factory.getbasetemp() / "pieces"
    folder.mkdir(exist_ok=True)
    content = "".join(f"{quoted(one)},{quoted(other)}\n" for one, other in texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_PIECE_BYTES", size)
        patch.setattr(lines, "_RECORD_BYTES_MAX", 100)
        for encoding in ("utf-8", "gb18030"):
            assert taken(folder, content, encoding=encoding) == texts
            said = refusal(folder, f'{content}a,"b"c\n', encoding=encoding)
            assert f"in line {content.count(chr(10)) + 1} the b" in said


def test_a_quote_that_a_large_file_closes_nowhere_is_named_by_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "_PIECE_BYTES", 64)
    monkeypatch.setattr(lines, "_RECORD_BYTES_MAX", 256)
    assert "in line 3 the b '\"c', whose quote nothing closes" in refusal(
        tmp_path, "a,b\n" * 2 + 'b,"c\n' + "a,b\n" * 1000
    )


# ---- values ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", ["2026-11-27", "2026-11-27 12", "2026-11-27 12:30", "2026-11-27T12"])
@pytest.mark.parametrize("of", ["datetime", "instant", "datetime(0)"])
def test_a_moment_without_its_seconds_is_refused_with_its_cure(value: str, of: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, f"x,2026-11-27 12:30:00\ny,{value}\n", ("text", of))
    assert f"has in row 2 the b '{value}', which leaves hours, minutes or seconds open" in said
    assert "declared `form`" in said


@pytest.mark.parametrize(
    ("form", "value", "is_taken"),
    [
        ("%Y-%m-%d %H:%M", "2026-11-27 12:30", True),
        ("%Y%m%d%H%M%S", "20261127123000", True),
        ("%d.%m.%Y %H:%M:%S", "27.11.2026 12:30:00", True),
        ("%Y%m%d%H%M%S", "2026112712300", False),
        ("%Y%m%d%H%M%S", "20261127123061", False),
    ],
)
def test_a_declared_form_says_what_is_left_out(form: str, value: str, is_taken: bool, tmp_path: Path) -> None:
    for of, zone in (("datetime", ""), ("instant", "+00:00")):
        if is_taken:
            assert str(taken(tmp_path, f"{value}\n", (of,), form=form)[0][0]) == f"2026-11-27 12:30:00{zone}"
        else:
            assert f"'{value}', which is no {of}" in refusal(tmp_path, f"{value}\n", (of,), form=form)


# By type: what is taken, and what is refused.
VALUES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "integer": (
        ("-5", "007", "-0"),
        ("1e3", "+5", " 5", "5 ", "٣", "１", "1_000", "0x10", "5.", "5.0", ".5", "0b1", "--5", "Infinity", "5\0"),
    ),
    "decimal(18,2)": (
        ("-5", "007", "+5", "5.", ".5", "5.00", "-0", "0E-18", "0e0", "2.5E-1"),
        ("1e3", "1.234E-1", "1E+2", "1.25e1", " 5", "5 ", "٣", "1_000", "0x10", "Infinity", "NaN", "5-", "."),
    ),
    "double": (
        ("1e3", "+5", "5.", ".5", "007", "Infinity", "-inf", "NaN"),
        (" 5", "5 ", "٣", "1_000", "0x10", "5d", "Infinite"),
    ),
    "date": (
        ("2026-11-27",),
        ("2026-2-3", "2026/11/27", "20261127", "2026-02-30", " 2026-11-27", "٢٠٢٦-11-27", "2026-11-27 00:00:00", "1"),
    ),
    "datetime": (
        ("2026-11-27 12:30:00", "2026-11-27T12:30:00", "2026-11-27 12:30:00.5"),
        ("2026-2-3 12:30:00", "2026-11-27 12:30:00.", "2026-11-27 24:00:00", "2026-11-27 23:59:60", "20261127 123000")
        + ("2026-11-27 12:30:00Z", "2026-11-27 12:30:00+08:00", "2026-11-27 12:30:00.1234567"),
    ),
    "instant": (
        ("2026-11-27 12:30:00", "2026-11-27T12:30:00Z"),
        ("2026-11-27 12:30:00ZZ", "2026-11-27 12:30:00+08:00", "2026-11-27 12:30:00z"),
    ),
    "time": (("12:30:00", "1:02:03", "12:30:00.5"), ("12:30", "12", "٠3:00:00", "0٣:00:00", "12:30:00.", "123000")),
    "boolean": (("true", "False", "TRUE", "1", "0"), ("t", "yes", "on", "Y", " true", "2")),
    "bytes": (("00ff", "00FF"), ("00 ff", "00\tff", "0x00", "f", "٠٠")),
    "uuid": (
        ("6f9619ff-8b86-d011-b42d-00c04fc964ff", "6F9619FF8B86D011B42D00C04FC964FF"),
        (
            "6f9619ff_8b86d011b42d00c04fc964f",
            " 6f9619ff8b86d011b42d00c04fc964f",
            "6f9619ff",
            "٣f9619ff8b86d011b42d00c04fc964ff",
        ),
    ),
}


@pytest.mark.parametrize(("of", "value"), [(of, value) for of, (good, _) in VALUES.items() for value in good])
def test_a_value_that_can_be_read_in_one_way_is_taken(of: str, value: str, tmp_path: Path) -> None:
    ((found,),) = taken(tmp_path, f"{value}\n", (of,))
    assert found is not None


@pytest.mark.parametrize(("of", "value"), [(of, value) for of, (_, bad) in VALUES.items() for value in bad])
def test_a_value_that_could_only_be_guessed_is_refused_by_row_and_column(of: str, value: str, tmp_path: Path) -> None:
    said = refusal(tmp_path, f"\n{value}\n", (of,))
    assert re.search(f"t.csv has in row 2 the a {re.escape(repr(value))}, which ", said)


def test_a_decimal_with_an_exponent_says_what_a_spreadsheet_has_done(tmp_path: Path) -> None:
    said = refusal(tmp_path, "1.23457E+11\n", ("decimal(18,2)",))
    assert "which has an exponent, as a spreadsheet writes a large number that it has rounded" in said
