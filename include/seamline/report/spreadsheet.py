"""A report as a workbook (XLSX): a sheet per block, cells of their types, and no formula."""

import io
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal

import xlsxwriter
from xlsxwriter.format import Format
from xlsxwriter.worksheet import Worksheet

from seamline.report.blocks import Block, Cell, Report, Row
from seamline.report.words import clipped, in_words, visible

# Excel keeps so many digits of a number.
_DIGITS = 15
# And so many signs of a text, rows of a sheet (one for the header, one for the totals), and years of its calendar.
_SIGNS = 32_767
_ROWS = 1_048_576 - 2
_FIRST_YEAR = 1900
# And shows so many digits behind the point.
_PLACES = 30
_WIDEST, _NARROWEST = 60, 9
_NO_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
AS_TEXT = f"Numbers in italics have more than {_DIGITS} digits, or are none. They are texts, so that no digit is lost."

_Style = Mapping[str, object]
_HEAD: _Style = {"bold": True, "bg_color": "#D9E1EC", "border": 1, "text_wrap": True, "valign": "top"}
_WRONG: _Style = {"bg_color": "#FCE4E0"}
_TOTAL: _Style = {"bold": True, "top": 1}
_WIDE_NUMBER: _Style = {"italic": True, "align": "right", "num_format": "@"}
_COUNT: _Style = {"num_format": "#,##0"}
_DATE: _Style = {"num_format": "yyyy-mm-dd", "align": "left"}
_TEXT: _Style = {"num_format": "@", "valign": "top"}


def to_xlsx(report: Report) -> bytes:
    """Texts are texts whatever they begin with. A number that Excel would round is a text in italics, and the first
    sheet says so. Moments are in the report's zone and show its offset. The same report is the same file."""
    file = io.BytesIO()
    options = {"in_memory": True, "strings_to_formulas": False, "strings_to_numbers": False, "strings_to_urls": False}
    with xlsxwriter.Workbook(file, options) as book:
        book.set_properties({
            "title": f"{report.verdict} {visible(report.subject)}",
            "created": (report.at or _NO_MOMENT).astimezone(UTC).replace(tzinfo=None),
        })  # fmt: skip
        _Book(book, report).write()
    return file.getvalue()


class _Book:
    def __init__(self, book: xlsxwriter.Workbook, report: Report) -> None:
        self._book = book
        self._report = report
        self._formats: dict[tuple[tuple[str, object], ...], Format] = {}

    def write(self) -> None:
        first = self._book.add_worksheet("Verdict")
        first.write_string(0, 0, self._report.verdict.value, self._format({"bold": True, "font_size": 16}))
        first.write_string(1, 0, visible(self._report.subject), self._format({"bold": True}))
        first.set_column(0, 0, _WIDEST)
        for number, block in enumerate(self._report.blocks):
            first.write_string(3 + number, 0, f"{block.title}: {len(block.rows):,}", self._format(_TEXT))
            self._write_block(self._book.add_worksheet(block.title), block)
        cells = [cell for block in self._report.blocks for row in block.rows for cell in row.cells]
        if any(isinstance(cell, int | Decimal) and not _fits(cell) for cell in cells):
            first.write_string(4 + len(self._report.blocks), 0, AS_TEXT, self._format({"italic": True}))

    def _write_block(self, sheet: Worksheet, block: Block) -> None:
        sheet.freeze_panes(1, 0)
        sheet.set_landscape()
        sheet.set_paper(9)  # A4
        sheet.fit_to_pages(1, 0)
        sheet.repeat_rows(0)
        for place, name in enumerate(block.columns):
            sheet.write_string(0, place, name, self._format(_HEAD))
            sheet.set_column(place, place, self._width(block, place))
        rows = block.rows[:_ROWS]
        for number, row in enumerate(rows, start=1):
            self._write_row(sheet, number, row, _WRONG if row.is_wrong else {})
        sheet.autofilter(0, 0, len(rows), len(block.columns) - 1)
        if block.totals:
            self._write_row(sheet, len(rows) + 1, Row(block.totals), _TOTAL)

    def _write_row(self, sheet: Worksheet, number: int, row: Row, style: _Style) -> None:
        for place, cell in enumerate(row.cells):
            self._write_cell(sheet, number, place, cell, style)

    def _write_cell(self, sheet: Worksheet, number: int, place: int, cell: Cell, style: _Style) -> None:
        match cell:
            case None:
                sheet.write_blank(number, place, None, self._format(style))
            case int() | Decimal() if _fits(cell):
                sheet.write_number(number, place, float(cell), self._format({**_number_style(cell), **style}))
            case int() | Decimal():
                sheet.write_string(number, place, in_words(cell, UTC), self._format({**_WIDE_NUMBER, **style}))
            case datetime() if cell.year > _FIRST_YEAR:
                here = cell.astimezone(self._report.zone)
                look = {"num_format": f'yyyy-mm-dd hh:mm:ss "{here.isoformat()[-6:]}"', "align": "left"}
                sheet.write_datetime(number, place, here.replace(tzinfo=None), self._format({**look, **style}))
            case date() if not isinstance(cell, datetime) and cell.year > _FIRST_YEAR:
                sheet.write_datetime(number, place, cell, self._format({**_DATE, **style}))
            case _:
                text = clipped(in_words(cell, self._report.zone), _SIGNS)
                sheet.write_string(number, place, text, self._format({**_TEXT, **style}))

    def _width(self, block: Block, place: int) -> int:
        texts = [block.columns[place], *(in_words(cell, self._report.zone) for cell in block.column(place))]
        return min(_WIDEST, max(_NARROWEST, 2 + max(map(len, texts))))

    def _format(self, style: _Style) -> Format:
        """One for each style: a workbook may have 64,000."""
        key = tuple(sorted(style.items()))
        if key not in self._formats:
            self._formats[key] = self._book.add_format(dict(style))
        return self._formats[key]


def _fits(number: int | Decimal) -> bool:
    """Whether Excel keeps all its digits, and so shows the number that was compared."""
    exact = Decimal(number)
    if not exact.is_finite():
        return False
    digits = "".join(map(str, exact.as_tuple().digits)).strip("0")
    return len(digits) <= _DIGITS and abs(exact.adjusted()) <= _DIGITS


def _number_style(number: int | Decimal) -> _Style:
    scale = -int(number.as_tuple().exponent) if isinstance(number, Decimal) else 0
    return {"num_format": f"#,##0.{'0' * min(scale, _PLACES)}"} if scale > 0 else _COUNT
