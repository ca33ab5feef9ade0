"""What declarations of sources and destinations of files have in common."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from seamline.spec.fields import Declared


def _delimiter(value: str) -> str:
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in '"\r\n.-+:':
        raise ValueError("one sign of ASCII that neither quotes nor stands in numbers and times")
    return value


def _null(value: str) -> str:
    if any(sign in value for sign in '"\r\n'):
        raise ValueError("a mark of NULL holds neither quotes nor ends of lines")
    return value


class CsvRows(Declared):
    """How the rows of a CSV file stand in it."""

    delimiter: Annotated[str, AfterValidator(_delimiter)] = Field(",", description="What stands between two values.")
    encoding: Literal["utf-8", "gb18030", "gbk", "big5", "shift_jis", "latin-1"] = Field(
        "utf-8", description="How letters become bytes."
    )
    null: Annotated[str, AfterValidator(_null)] = Field(
        "", description="What stands for NULL, without quotes. A text that looks like it stands in quotes."
    )
    column_names: bool = Field(
        default=True, description="Whether a line with the names of the columns comes before the rows."
    )
