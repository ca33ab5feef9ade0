"""Forms of files: what a file of rows may be, and how rows stand in a CSV file."""

from dataclasses import dataclass

CSV, PARQUET = "csv", "parquet"
# In front of a file it says how the file is encoded, and readers leave it out there.
MARK = "\ufeff"


@dataclass(frozen=True, slots=True)
class Dialect:
    """`null` stands without quotes. `quotes`: whether texts may stand in them; else a quote is a letter like any other.
    `header`, `trailer`: records before and behind the rows."""

    delimiter: str = ","
    encoding: str = "utf-8"
    line_end: str = "lf"
    null: str = ""
    column_names: bool = True
    quotes: bool = True
    header: bool = False
    trailer: bool = False

    @property
    def end(self) -> str:
        return "\r\n" if self.line_end == "crlf" else "\n"


def encoded(text: str, encoding: str) -> bytes:
    """UnicodeEncodeError: a letter of it does not come back as it was, as the yen sign, of which Shift JIS makes a
    backslash."""
    found = text.encode(encoding)
    back = found.decode(encoding, "replace")
    if back != text:
        at = next((place for place, (one, other) in enumerate(zip(text, back, strict=False)) if one != other), 0)
        raise UnicodeEncodeError(encoding, text, at, at + 1, "it comes back as another letter")
    return found


def lost_letter(text: str, encoding: str) -> str:
    """The first letter that `encoded` refuses; "" where there is none."""
    try:
        encoded(text, encoding)
    except UnicodeEncodeError as exc:
        return str(exc.object[exc.start])
    return ""
