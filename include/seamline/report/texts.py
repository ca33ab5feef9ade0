"""A report as text: for a terminal, and as Markdown. The verdict stands first. Pure."""

import re
import unicodedata
from collections.abc import Iterator, Sequence

from seamline.report.blocks import Block, Report, Row
from seamline.report.words import clipped, in_words

# So wide is a column of a terminal at most; files hold all of it.
_WIDEST = 72
_WRONG, _WAITING = "✗", "…"
_OF_MARKDOWN = re.compile(r"([\\`*_{}\[\]()#+!|~$])")
_OF_HTML = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def to_terminal(report: Report) -> str:
    """Wrong rows bear a cross in front, waiting ones three dots. Long texts are cut off, but for those of notes."""
    lines = [f"{report.verdict}  {report.subject}"]
    for block in report.blocks:
        lines += ["", block.title.upper()]
        lines += _record_lines(block, report) if block.is_record else _table_lines(block, report)
    return "\n".join(line.rstrip() for line in lines) + "\n"


def to_markdown(report: Report) -> str:
    lines = [f"# {_escaped(report.verdict)} {_escaped(report.subject)}"]
    for block in report.blocks:
        lines += ["", f"## {block.title}", ""]
        if block.is_record:
            for fields in _records(block, report):
                lines += ["| | |", "|---|---|", *(_line(map(_escaped, field)) for field in fields), ""]
        else:
            lines += _markdown_table(block, report)
    return "\n".join(lines).rstrip("\n") + "\n"


def _record_lines(block: Block, report: Report) -> Iterator[str]:
    for number, fields in enumerate(_records(block, report)):
        if number:
            yield ""
        width = max(len(name) for name, _ in fields)
        yield from (f"  {name:<{width}}  {value}" for name, value in fields)


def _records(block: Block, report: Report) -> Iterator[list[tuple[str, str]]]:
    """Of each row the names and values of what is known."""
    for row in block.rows:
        cells = zip(block.columns, row.cells, strict=True)
        yield [(name, in_words(cell, report.zone)) for name, cell in cells if cell is not None]


def _table_lines(block: Block, report: Report) -> Iterator[str]:
    table = [list(block.columns), *_texts(block, report)]
    if not block.is_whole:
        table = [[clipped(text, _WIDEST) for text in row] for row in table]
    widths = [max(_width(row[place]) for row in table) for place in range(len(block.columns))]
    marks = [" ", *(_mark(row) or " " for row in block.rows), " "]
    for number, row in enumerate(table):
        if block.totals and number == len(table) - 1:
            yield "  " + "  ".join("-" * width for width in widths)
        yield f"{marks[number]} " + "  ".join(
            _padded(text, width, is_right=block.is_numeric(place))
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )


def _mark(row: Row) -> str:
    return _WRONG if row.is_wrong else _WAITING if row.is_waiting else ""


def _markdown_table(block: Block, report: Report) -> Iterator[str]:
    yield _line(("", *block.columns))
    yield _line(("---", *("---:" if block.is_numeric(place) else "---" for place in range(len(block.columns)))))
    marks = [*map(_mark, block.rows), ""]
    for mark, row in zip(marks, _texts(block, report), strict=False):
        yield _line((mark, *map(_escaped, row)))


def _texts(block: Block, report: Report) -> Iterator[list[str]]:
    """The rows, the totals last."""
    for row in (*block.rows, *([Row(block.totals)] if block.totals else ())):
        yield [in_words(cell, report.zone) for cell in row.cells]


def _line(cells: Sequence[str] | Iterator[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _escaped(text: str) -> str:
    return _OF_MARKDOWN.sub(r"\\\1", text).translate(_OF_HTML)


def _padded(text: str, width: int, *, is_right: object) -> str:
    gap = " " * (width - _width(text))
    return f"{gap}{text}" if is_right else f"{text}{gap}"


def _width(text: str) -> int:
    """In columns of a terminal: signs of Chinese, Japanese and Korean take two, marks on another sign none."""
    return sum(_width_of(sign) for sign in text)


def _width_of(sign: str) -> int:
    if unicodedata.combining(sign):
        return 0
    return 2 if unicodedata.east_asian_width(sign) in "WF" else 1
