"""Lines of a CSV file that readers disagree about: text behind a closing quote, a quote amid a text, a quote that
nothing closes, a CR alone, another number of fields. Some readers drop what others keep, and Arrow takes most of them.
Pure.
"""

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from seamline.files.dialect import Dialect

_PIECE_BYTES = 32 * 2**20
# A row that is longer has no place in a block of Arrow's.
_RECORD_BYTES_MAX = 32 * 2**20
_SHOWN_MAX = 60
_QUOTE = b'"'
_CURE = (
    ": a text that holds a quote, a delimiter or the end of a line stands in quotes, and each quote in it is doubled;"
    " of a writer who knows no quotes `csv: {quotes: false}` says so"
)
_CR = "lines end with LF or CR LF, and a text that holds a CR stands in quotes"


@dataclass(frozen=True, slots=True)
class _Grammar:
    """`records`: as many whole rows as there are. `field`: one, which may be nothing."""

    delimiter: bytes
    field: re.Pattern[bytes]
    records: re.Pattern[bytes]


def fault_of(rows: pa.Buffer, names: Sequence[str], dialect: Dialect, *, first_line: int) -> str:
    """The first one, as the end of a sentence about the file; "" where there is none. `names`: of the columns, as
    fields follow each other. UnicodeDecodeError: these are no letters of the encoding."""
    grammar = _grammar(len(names), dialect)
    line, left = first_line, b""
    for piece in _pieces(rows, dialect.encoding):
        left += piece
        # Its groups match nothing as well, so it always finds a place.
        end = grammar.records.match(left).end()  # type: ignore[union-attr]
        line += left.count(b"\n", 0, end)
        left = left[end:]
        if len(left) > _RECORD_BYTES_MAX:
            break
    return _named(left, names, grammar, line) if left else ""


def is_plain(rows: pa.Buffer, dialect: Dialect) -> bool:
    """Whether no line has a quote or a CR alone, so that all readers find the same fields in it. No letter of an
    encoding that is offered has their bytes."""
    for at in range(0, rows.size, _PIECE_BYTES):
        # With the byte behind it, for a CR at its end.
        piece = rows.slice(at, min(_PIECE_BYTES + 1, rows.size - at)).to_pybytes()
        if dialect.quotes and _QUOTE in piece:
            return False
        if piece.count(b"\r", 0, _PIECE_BYTES) != piece.count(b"\r\n"):
            return False
    return True


def _grammar(columns: int, dialect: Dialect) -> _Grammar:
    delimiter = re.escape(dialect.delimiter.encode())
    quoted, sign = (rb'"[^"]*+(?:""[^"]*+)*+"|', _QUOTE) if dialect.quotes else (b"", b"")
    field = b"(?:%b[^%b\r\n%b]*+)" % (quoted, sign, delimiter)
    record = rb"%b(?:%b%b){%d}\r?\n" % (field, delimiter, field, columns - 1)
    return _Grammar(dialect.delimiter.encode(), re.compile(field), re.compile(rb"(?:%b|\r?\n)*+" % record))


def _pieces(rows: pa.Buffer, encoding: str) -> Iterator[bytes]:
    """In UTF-8, where no byte of a letter is a sign of ASCII."""
    decoder = codecs.getincrementaldecoder(encoding)()
    for at in range(0, rows.size, _PIECE_BYTES):
        piece = rows.slice(at, min(_PIECE_BYTES, rows.size - at)).to_pybytes()
        yield piece if encoding == "utf-8" else decoder.decode(piece).encode()


def _named(record: bytes, names: Sequence[str], grammar: _Grammar, line: int) -> str:
    """`record`: it and all that follows."""
    begin = 0
    for number, name in enumerate(names, start=1):
        end = grammar.field.match(record, begin).end()  # type: ignore[union-attr]
        if number == len(names) or record[end : end + 1] != grammar.delimiter:
            at = line + record.count(b"\n", 0, begin)
            return _of_field(record, begin, end, grammar, f"line {at}", name) or _of_number(
                record, end, grammar, f"line {at}", name, number, len(names)
            )
        begin = end + 1
    return ""


def _of_field(record: bytes, begin: int, end: int, grammar: _Grammar, where: str, name: str) -> str:
    """`end`: where the grammar has come to, from where the field begins."""
    behind = record[end : end + 2]
    if behind[:1] == b"\r" and behind != b"\r\n":
        return f"has in {where} a CR alone in or behind {name}: {_CR}"
    if behind[:1] in (b"", b"\r", b"\n", grammar.delimiter):
        return ""
    shown = repr(_shown(record, begin, end, grammar))
    if end == begin:
        return f"has in {where} the {name} {shown}, whose quote nothing closes{_CURE}"
    if record[begin:].startswith(_QUOTE):
        return f"has in {where} the {name} {shown}, with text behind its closing quote{_CURE}"
    return f"has in {where} the {name} {shown}, with a quote amid a text that stands in none{_CURE}"


def _of_number(record: bytes, end: int, grammar: _Grammar, where: str, name: str, number: int, of: int) -> str:
    if record[end : end + 1] == grammar.delimiter:
        return f"has in {where} more than {of} fields: another one begins behind {name}"
    return f"has in {where} {number} of {of} fields: it ends behind {name}" if number < of else ""


def _shown(record: bytes, begin: int, end: int, grammar: _Grammar) -> str:
    """The field as it stands, up to the end of its line."""
    rest = re.compile(rb"[^\r\n%b]*" % re.escape(grammar.delimiter)).match(record, end)
    return record[begin : rest.end() if rest else end].decode("utf-8", "replace")[:_SHOWN_MAX]
