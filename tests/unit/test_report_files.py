"""Reports as files: numbers stay numbers, no digit is lost, no value acts, and all scripts can be read."""

import csv
import hashlib
import io
import re
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from importlib import resources
from xml.etree import ElementTree
from zoneinfo import ZoneInfo

import pytest

from seamline.domain.break_id import break_id
from seamline.domain.cut_state import Headline
from seamline.domain.sign_off import SignAct, Signature, SignOff
from seamline.domain.verdict import Verdict
from seamline.report import documents, lines, printed
from seamline.report.blocks import Block, Report, Row
from seamline.report.contents import report_of
from seamline.report.printed import to_pdf
from seamline.report.spreadsheet import AS_TEXT, to_xlsx
from tests.unit.broken_date import CHINESE, FORMULA, HOSTILE, NARROW, PAYMENTS, WIDE, broken_cut
from tests.unit.reported import MATCH, MOMENT, TODAY, cut, reconciliation

_MAIN = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
BROKEN = report_of("settlement", [broken_cut()], zone=ZoneInfo("Asia/Shanghai"))
# Of `fonts-wqy-microhei_0.2.0-beta-3.1_all.deb`, ./usr/share/fonts/truetype/wqy/wqy-microhei.ttc.
DEBIANS_FONT = "2420e8078af796b19a3f6ef13de527a1a91c1e7171eea115926c614ced1009b3"


def sheet(content: bytes, title: str) -> Mapping[str, str | float]:
    """The cells of one sheet by their places, texts as texts and numbers as numbers; a formula fails."""
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        names = [one.get("name") for one in ElementTree.fromstring(book.read("xl/workbook.xml")).iter(f"{_MAIN}sheet")]
        shared = ElementTree.fromstring(book.read("xl/sharedStrings.xml"))
        texts = ["".join(part.text or "" for part in one.iter(f"{_MAIN}t")) for one in shared]
        cells = ElementTree.fromstring(book.read(f"xl/worksheets/sheet{names.index(title) + 1}.xml"))
        assert not list(cells.iter(f"{_MAIN}f"))
        found: dict[str, str | float] = {}
        for cell in cells.iter(f"{_MAIN}c"):
            value = cell.findtext(f"{_MAIN}v")
            if value is not None:
                found[cell.attrib["r"]] = texts[int(value)] if cell.get("t") == "s" else float(value)
        return found


def one_cell(cell: object) -> str | float:
    block = Block("Cells", ("a",), (Row((cell,)),))  # type: ignore[arg-type]
    return sheet(to_xlsx(Report("s", Headline.MATCH, (block,))), "Cells")["A2"]


def pages_of(content: bytes) -> list[str]:
    """The texts of a PDF's pages, by the table that its font has from glyphs to signs."""
    signs = {
        bytes.fromhex(glyph.decode()).decode("utf-16-be"): bytes.fromhex(sign.decode()).decode("utf-16-be")
        for glyph, sign in re.findall(rb"<([0-9A-F]{4})> <([0-9A-F]+)>", content.partition(b"beginbfchar")[2])
    }
    pages = []
    for stream in re.findall(rb"stream\r?\n(x.*?)\r?\nendstream", content, re.DOTALL):
        shown = re.findall(rb"\(((?:[^()\\]|\\.)*)\) Tj", zlib.decompress(stream), re.DOTALL)
        if shown:
            texts = [re.sub(rb"\\(.)", _unescaped, one, flags=re.DOTALL).decode("utf-16-be") for one in shown]
            pages.append("\n".join("".join(signs.get(glyph, "?") for glyph in text) for text in texts))
    return pages


def _unescaped(found: re.Match[bytes]) -> bytes:
    return {b"n": b"\n", b"r": b"\r"}.get(found[1], found[1])


def test_a_sheet_has_numbers_as_numbers_and_texts_as_texts() -> None:
    found = sheet(to_xlsx(BROKEN), "Control totals")
    assert [found[f"{place}1"] for place in "ABC"] == ["table", "column", "group"]
    assert (found["D2"], found["F2"]) == (500_000.0, -1.0)
    assert (Decimal(repr(found["G2"])), found["I2"]) == (NARROW, -5.0)


def test_a_number_that_excel_would_round_is_a_text_and_the_first_sheet_says_so() -> None:
    content = to_xlsx(BROKEN)
    assert sheet(content, "Control totals")["G3"] == f"{WIDE:,}"
    assert AS_TEXT in sheet(content, "Verdict").values()
    assert AS_TEXT not in sheet(to_xlsx(report_of("settlement", [cut(MATCH)], zone=UTC)), "Verdict").values()


@pytest.mark.parametrize(
    ("number", "is_kept"),
    [
        (Decimal("123456789012345"), True),
        (Decimal("1234567890123456"), False),
        (Decimal("0.123456789012345"), True),
        (Decimal("1234567890123450000"), False),
        (Decimal("100.000000000000000000"), True),
        (Decimal("-0.0001"), True),
        (Decimal("NaN"), False),
        (Decimal("Infinity"), False),
        (123456789012345, True),
        (1234567890123456, False),
        (0, True),
    ],
)
def test_a_cell_is_a_number_only_where_all_its_digits_are_kept(number: int | Decimal, is_kept: bool) -> None:
    found = one_cell(number)
    assert isinstance(found, float) is is_kept
    shown = repr(found) if isinstance(found, float) else found.replace(",", "")
    assert Decimal(shown) == number or Decimal(number).is_nan()


def test_a_sheet_ends_with_the_totals_and_its_header_stays_in_sight() -> None:
    content = to_xlsx(BROKEN)
    found = sheet(content, "Completeness")
    assert (found["A4"], found["E4"], found["F4"]) == ("all", -3.0, 12.0)
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        texts = [book.read(name).decode() for name in book.namelist() if name.startswith("xl/worksheets/sheet")]
    assert sum('state="frozen"' in text for text in texts) == len(BROKEN.blocks)


def test_no_value_is_a_formula_or_a_link_in_a_sheet_whatever_it_begins_with() -> None:
    for text in (FORMULA, "+1", "-1", "@x", "=1+1", "http://evil.example", "{=1}", "_x0041_", "123"):
        assert one_cell(text).replace("_x005F_", "_") == text  # type: ignore[union-attr]
    assert FORMULA in sheet(to_xlsx(BROKEN), "Breaks").values()


def test_texts_of_all_scripts_stand_in_a_sheet_and_what_cannot_be_seen_is_written_out() -> None:
    found = sheet(to_xlsx(BROKEN), "Breaks").values()
    assert CHINESE in found
    (hostile,) = [text for text in found if isinstance(text, str) and "evil" in text]
    assert "\\u{1b}[31m \\u{202e}evil 😀" in hostile
    assert one_cell("a\ud800b\x00") == "a\\u{d800}b\\u{0}"


def test_a_text_that_is_too_long_for_a_cell_is_cut_off_and_says_how_long_it_was() -> None:
    assert str(one_cell("x" * 40_000)).endswith("… (40,000 signs)")
    assert len(str(one_cell("x" * 40_000))) == 32_767


def test_a_moment_in_a_sheet_is_in_the_zone_of_the_report_and_a_date_is_a_date() -> None:
    block = Block("Cells", ("a", "b", "c"), (Row((MOMENT, date(2026, 11, 21), date(1, 1, 1))),))
    content = to_xlsx(Report("s", Headline.MATCH, (block,), zone=ZoneInfo("Asia/Shanghai")))
    found = sheet(content, "Cells")
    days = (datetime(2026, 11, 21, 9, 2, 3) - datetime(1899, 12, 30)).total_seconds() / 86_400  # noqa: DTZ001
    assert found["A2"] == pytest.approx(days, abs=1e-8)
    assert (found["B2"], found["C2"]) == (46347.0, "0001-01-01")
    with zipfile.ZipFile(io.BytesIO(content)) as book:
        assert "+08:00" in book.read("xl/styles.xml").decode()


def test_a_pdf_has_verdict_and_page_number_on_each_page() -> None:
    many = replace(PAYMENTS, breaks=PAYMENTS.breaks * 10)
    pages = pages_of(to_pdf(report_of("settlement", [cut(many)], zone=UTC)))
    assert len(pages) > 2
    for number, page in enumerate(pages, start=1):
        assert "BREAK · settlement, 2026-11-21" in page
        assert page.replace("\n", "").endswith(f"{number} / {len(pages)}")


def test_a_pdf_shows_chinese_and_hostile_texts_and_writes_out_what_its_font_lacks() -> None:
    text = "\n".join(pages_of(to_pdf(BROKEN)))
    for expected in (
        CHINESE,
        FORMULA,
        "<script>",
        "\\u{1b}[31m",
        "\\u{202e}evil",
        "\\u{1f600}",
        f"{WIDE:,}",
        "-5.0000",
    ):
        assert expected in text.replace("\n", ""), expected
    assert "?" not in text


def test_a_pdf_prints_so_many_lines_of_a_block_and_says_how_many_there_are_beside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(printed, "ROWS_PRINTED", 3)
    assert "not printed: 1 lines" in "\n".join(pages_of(printed.to_pdf(BROKEN)))


def test_the_same_report_is_the_same_file() -> None:
    for written in (to_pdf, to_xlsx):
        assert written(BROKEN) == written(BROKEN)


def test_the_font_is_the_one_that_debian_has_too() -> None:
    """The wheel that brings it is of somebody unknown."""
    file = resources.files("paperang_p2_fonts_cjk") / "fonts/wqy-microhei.ttc"
    assert hashlib.sha256(file.read_bytes()).hexdigest() == DEBIANS_FONT


def csv_rows(*cuts: object) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(lines.to_csv(cuts, ()))))  # type: ignore[arg-type]


def test_the_csv_has_totals_as_before_and_a_line_for_each_column_in_which_a_row_differs() -> None:
    rows = csv_rows(broken_cut())
    assert [row["row_kind"] for row in rows] == ["total", "total", "table", "break", "break", "break", "break"]
    assert [row["difference"] for row in rows] == ["-5.0000", "1.00", "", "0.0001", "", "", ""]
    amount, payer, _, missing = (row for row in rows if row["row_kind"] == "break")
    assert amount["break_id"] == payer["break_id"] == break_id("settlement", "warehouse", PAYMENTS.breaks[0])
    assert (amount["column"], amount["source_value"], amount["destination_value"]) == ("amount", "1.0000", "1.0001")
    assert (missing["break_type"], missing["source_value"]) == ("missing", 'id: 8; payer: NULL; note: "NULL"')
    assert [row["breaks"] for row in rows] == ["12", "", "0", "", "", "", ""], "a spreadsheet adds them up"


def test_rows_of_a_csv_that_compared_nothing_are_runs() -> None:
    assert [row["row_kind"] for row in csv_rows(cut())] == ["run"]


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        ("-5.00", "-5.00"),
        ("+1", "+1"),
        ("-1+cmd|x", "'-1+cmd|x"),
        (FORMULA, f"'{FORMULA}"),
        ("＝1", "'＝1"),
        ("\n=1", "'\n=1"),
    ],
)
def test_a_text_in_the_csv_is_no_formula_and_a_number_stays_one(value: str, cell: str) -> None:
    one = replace(PAYMENTS.breaks[0], source={"a": value}, destination={"a": "0"})
    (row,) = [row for row in csv_rows(cut(replace(PAYMENTS, breaks=(one,)))) if row["row_kind"] == "break"]
    assert row["source_value"] == cell


def test_json_has_differences_and_identities_with_all_their_digits() -> None:
    (one,) = documents.to_json([broken_cut()], [], levels={"warehouse": "one commit moves all"})
    payments = one["tables"][0]
    assert [total["difference"] for total in payments["control_totals"]] == ["-5.0000", "1.00"]
    assert payments["breaks"][0]["id"] == break_id("settlement", "warehouse", PAYMENTS.breaks[0])
    assert payments["breaks"][0]["source"]["note"] == HOSTILE
    assert one["level"] == "one commit moves all"
    assert documents.to_json([], [reconciliation(MATCH)], levels={})[0]["scope"] == "live"


def test_a_csv_has_the_sign_off_and_the_zone_of_the_sync() -> None:
    """It had neither: a date that a person had signed looked like any other, and its moments stood in UTC."""
    at = MOMENT.replace(hour=22)
    signature = Signature(SignAct.SIGNED, 1, 1, "ann", "two rows, known", Verdict.MATCH, "a" * 64, at)
    sign = SignOff(
        "settlement", "warehouse", TODAY, 1, 1, "r", Verdict.MATCH, partial=False, verdict_hash="a" * 64,
        preparer="scheduler", prepared_at=MOMENT, acts=(signature,),
    )  # fmt: skip
    zone = ZoneInfo("Asia/Shanghai")

    def row(*signs: SignOff) -> dict[str, str]:
        return next(csv.DictReader(io.StringIO(lines.to_csv([cut(MATCH)], (), zone=zone, sign_offs=signs))))

    found = row(sign)
    assert (found["sign_off"], found["sign_off_by"], found["sign_off_reason"]) == ("signed", "ann", "two rows, known")
    assert (found["sign_off_at"], found["sign_off_verdict_hash"]) == ("2026-11-22T06:02:03+08:00", "a" * 64)
    assert found["position_time"] == "2026-11-21T09:02:03+08:00"
    assert row(replace(sign, acts=()))["sign_off"] == "prepared" and row()["sign_off"] == ""
    (document,) = documents.to_json([cut(MATCH)], [], levels={}, sign_offs=[sign], zone=zone)
    assert document["position_time"] == found["position_time"]
    assert document["sign_off"]["acts"][0]["at"] == found["sign_off_at"]


def test_the_reason_with_which_a_version_was_made_stands_beside_who_has_prepared_it() -> None:
    """The cell was empty: only the page of the run had the reason."""
    why = "a posting was missing"
    sign = SignOff(
        "settlement", "warehouse", TODAY, 1, 1, "r", Verdict.MATCH, partial=False, verdict_hash="h", preparer="ann",
        prepared_at=MOMENT, prepared_reason=why,
    )  # fmt: skip
    found = report_of("settlement", [cut(MATCH)], zone=UTC, sign_offs=[sign])
    (block,) = [one for one in found.blocks if one.title == "Sign-off"]
    prepared, waits = (dict(zip(block.columns, row.cells, strict=True)) for row in block.rows)
    assert (prepared["sign-off"], prepared["who"], prepared["reason"]) == ("prepared", "ann", why)
    assert waits["reason"] is None
    row = next(csv.DictReader(io.StringIO(lines.to_csv([cut(MATCH)], (), sign_offs=[sign]))))
    assert (row["prepared_reason"], row["sign_off_reason"]) == (why, "")
    (document,) = documents.to_json([cut(MATCH)], [], levels={}, sign_offs=[sign])
    assert document["sign_off"]["prepared_reason"] == why
