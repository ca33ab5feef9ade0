"""`include/expectations/<name>.yaml`: business rules that a staged cut must pass before it is published."""

from typing import Any

from pydantic import Field

from seamline.spec.fields import Declared, Identifier, Name


class Check(Declared):
    """One expectation of Great Expectations on one staged table."""

    table: Identifier = Field(description="Table of the sync, or a derived table.")
    type: str = Field(
        pattern=r"^(expect_[a-z0-9_]+|unexpected_rows_expectation)$",
        description="Type of the expectation as Great Expectations names it, as expect_column_values_to_be_unique.",
    )
    kwargs: dict[str, Any] = Field(
        default_factory=dict, description="Its arguments; a query names the staged table as {batch}."
    )
    why: str = Field("", description="What it means for the business when the check fails.")


class ExpectationsSpec(Declared):
    """A suite. What reconciliation found is checked beside it, always."""

    expectations: Name = Field(description="Name of the suite; the file has the same name.")
    checks: tuple[Check, ...] = Field(min_length=1, strict=False, description="The checks, in the order shown.")
