"""Forms of files: what a file of rows may be, and how rows stand in a CSV file."""

from dataclasses import dataclass

CSV, PARQUET = "csv", "parquet"


@dataclass(frozen=True, slots=True)
class Dialect:
    """`null` stands without quotes. `header`, `trailer`: records before and behind the rows."""

    delimiter: str = ","
    encoding: str = "utf-8"
    line_end: str = "lf"
    null: str = ""
    column_names: bool = True
    header: bool = False
    trailer: bool = False

    @property
    def end(self) -> str:
        return "\r\n" if self.line_end == "crlf" else "\n"
