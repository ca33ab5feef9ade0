"""A transform that is written as a Python function of a DataFrame, or of several."""

import traceback
from collections.abc import Mapping
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

_NAME = "transform"


class NoFrame(Exception):
    """The file gives no DataFrame."""

    def __init__(self, line: int, what: str) -> None:
        super().__init__(what)
        self.line, self.what = line, what


def by_function(file: str, text: str, given: DataFrame | Mapping[str, DataFrame]) -> DataFrame:
    """What the function `transform` of a file with this text makes of the frame, or frames, that it is given.

    NoFrame: it makes none. PySparkException: Spark refuses what it asks.
    """
    names: dict[str, Any] = {"__name__": file}
    try:
        exec(compile(text, file, "exec"), names)
        made = names[_NAME](given) if callable(names.get(_NAME)) else None
    except SyntaxError as exc:
        raise NoFrame(exc.lineno or 1, f"this is not Python: {exc.msg}") from exc
    except PySparkException:
        raise
    # Whatever somebody else's code raises is a mistake in it.
    except Exception as exc:
        raise NoFrame(line_in(file, exc) or 1, f"{type(exc).__name__}: {exc}") from exc
    if not callable(names.get(_NAME)):
        raise NoFrame(1, f"there is no function `{_NAME}`")
    if not isinstance(made, DataFrame):
        raise NoFrame(1, f"`{_NAME}` returns {type(made).__name__}, which is no DataFrame")
    return made


def line_in(file: str, error: BaseException) -> int:
    """The last line of the file on the way to an error; 0 where it was not on the way."""
    lines = [one.lineno for one in traceback.extract_tb(error.__traceback__) if one.filename == file]
    return (lines or [0])[-1] or 0
