"""What declarations of sources and destinations of files have in common."""

from collections.abc import Iterator
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from seamline.files.dialect import MARK, lost_letter
from seamline.spec.fields import Declared


def _delimiter(value: str) -> str:
    if len(value) != 1 or not value.isascii() or value.isalnum() or value in '"\r\n\0.-+:':
        raise ValueError("one sign of ASCII that neither quotes nor stands in numbers and times")
    return value


def _null(value: str) -> str:
    if any(sign in value for sign in '"\r\n\0') or value.startswith(MARK):
        raise ValueError("a mark of NULL holds neither quotes nor ends of lines, no NUL, and no U+FEFF in front")
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

    @model_validator(mode="after")
    def _can_be_read_again(self) -> Self:
        for fault in self.faults():
            raise ValueError(fault)
        return self

    def faults(self) -> Iterator[str]:
        """Why no file of this form could be read again."""
        if self.delimiter in self.null:
            yield f"`null` {self.null!r} holds the delimiter {self.delimiter!r}: NULL would become two values"
        yield from self.lost("null", self.null)

    def lost(self, key: str, text: str) -> Iterator[str]:
        """Why `text`, which is declared under `key`, can stand in no such file."""
        if letter := lost_letter(text, self.encoding):
            yield f"{letter!r} of `{key}` is no letter of {self.encoding}: gb18030 and utf-8 have all letters"
