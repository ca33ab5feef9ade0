"""A report as a PDF for A4 paper: each page has the sync, the date and the verdict above, its number below."""

from datetime import UTC, datetime
from importlib import resources

from fpdf import FPDF
from fpdf.enums import TableBordersLayout, WrapMode
from fpdf.fonts import FontFace

from seamline.report.blocks import Block, Report, Row
from seamline.report.words import clipped, in_words, visible, written_out

# The folder of the wheel `paperang-p2-fonts-cjk`, which holds the font and nothing else.
_FONT_PACKAGE, _FONT_FILE, _FONT = "paperang_p2_fonts_cjk", "fonts/wqy-microhei.ttc", "report"
_MARGIN_MM, _BOTTOM_MM = 12, 16
_TEXT_PT, _SMALL_PT, _TITLE_PT, _BLOCK_PT = 8, 7, 15, 11
# A row has to fit onto one page.
_SIGNS = 700
# What is on paper is read by people; the other formats have every row.
ROWS_PRINTED = 500
# No column is narrower than so many signs, nor gets more of the page than for so many.
_NARROWEST, _WIDEST = 5, 46
_NO_MOMENT = datetime(2000, 1, 1, tzinfo=UTC)
_WRONG_MARK = "!"
_GREY, _RED, _HEAD = (110, 110, 110), (252, 228, 224), (217, 225, 236)


def to_pdf(report: Report) -> bytes:
    """A row that a person has to look at bears a `!` in front. A sign that the font lacks is written as `\\u{1f600}`.
    Of a block the first 500 lines are printed, and the number of the others. The same report is the same file."""
    page = _Page(report)
    page.write_report()
    return bytes(page.output())


class _Page(FPDF):
    def __init__(self, report: Report) -> None:
        super().__init__(orientation="landscape", format="A4")
        self._report = report
        self.add_font(_FONT, fname=str(resources.files(_FONT_PACKAGE) / _FONT_FILE))
        self.set_font(_FONT, size=_TEXT_PT)
        self.set_margin(_MARGIN_MM)
        self.set_auto_page_break(True, margin=_BOTTOM_MM)  # noqa: FBT003 - the library's parameter
        self.set_title(self._shown(f"{report.verdict} {report.subject}"))
        self.set_creation_date(report.at or _NO_MOMENT)

    def header(self) -> None:
        self.set_font(_FONT, size=_SMALL_PT)
        self.set_text_color(*_GREY)
        self.cell(0, 4, self._shown(f"{self._report.verdict} · {self._report.subject}"), align="L")
        self.ln(7)
        self.set_text_color(0)

    def footer(self) -> None:
        self.set_y(-_BOTTOM_MM + 5)
        self.set_font(_FONT, size=_SMALL_PT)
        self.set_text_color(*_GREY)
        self.cell(0, 4, f"{self.page_no()} / {{nb}}", align="R")
        self.set_text_color(0)

    def write_report(self) -> None:
        self.add_page()
        self.set_font(_FONT, size=_TITLE_PT)
        self.multi_cell(0, 8, self._shown(f"{self._report.verdict}  {self._report.subject}"), align="L")
        self.ln(2)
        for block in self._report.blocks:
            self._block(block)

    def _block(self, block: Block) -> None:
        self.ln(3)
        if self.will_page_break(20):
            self.add_page()
        self.set_font(_FONT, size=_BLOCK_PT)
        self.cell(0, 6, block.title)
        self.ln(7)
        self.set_font(_FONT, size=_TEXT_PT)
        if block.is_record:
            for row in block.rows:
                self._record(block, row)
        else:
            self._table(block)

    def _record(self, block: Block, row: Row) -> None:
        with self.table(
            col_widths=(1, 4), width=self.epw, borders_layout=TableBordersLayout.NONE, first_row_as_headings=False,
            line_height=4.2, align="L", wrapmode=WrapMode.CHAR,
        ) as table:  # fmt: skip
            for name, cell in zip(block.columns, row.cells, strict=True):
                if cell is not None:
                    table.row((name, self._shown(in_words(cell, self._report.zone))))
        self.ln(3)

    def _table(self, block: Block) -> None:
        places = range(len(block.columns))
        shown = block.rows[:ROWS_PRINTED]
        texts = [[self._shown(in_words(cell, self._report.zone)) for cell in row.cells] for row in shown]
        totals = [self._shown(in_words(cell, self._report.zone)) for cell in block.totals]
        rows = [list(block.columns), *texts, *([totals] if totals else [])]
        widths = (1.6, *(_share([row[place] for row in rows]) for place in places))
        with self.table(
            col_widths=widths, width=self.epw, borders_layout=TableBordersLayout.HORIZONTAL_LINES, line_height=4.0,
            text_align=("CENTER", *("RIGHT" if block.is_numeric(place) else "LEFT" for place in places)),
            headings_style=FontFace(emphasis="", fill_color=_HEAD), wrapmode=WrapMode.CHAR, padding=0.6,
        ) as table:  # fmt: skip
            table.row(("", *block.columns))
            for row, cells in zip(shown, texts, strict=True):
                style = FontFace(fill_color=_RED) if row.is_wrong else None
                table.row((_WRONG_MARK if row.is_wrong else "", *cells), style=style)
            if totals:
                table.row(("", *totals), style=FontFace(fill_color=_HEAD))
        if hidden := len(block.rows) - len(shown):
            self.multi_cell(0, 6, f"not printed: {hidden:,} lines; every other format has them", align="L")

    def _shown(self, text: str) -> str:
        text = clipped(visible(text), _SIGNS)
        has = self.fonts[_FONT].cmap  # type: ignore[union-attr]
        return "".join(sign if ord(sign) in has else written_out(sign) for sign in text)


def _share(texts: list[str]) -> float:
    """How wide a column is beside the others: its longest text, within bounds."""
    return min(_WIDEST, max(_NARROWEST, *(len(text) + 1 for text in texts)))
