"""`include/expectations/<name>.yaml`: business rules that a staged cut must pass before it is published."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from seamline.spec.expectation_types import EXPECTATION_TYPES
from seamline.spec.faults import nearest, redacted
from seamline.spec.fields import Declared, Name, SqlName

# Great Expectations fetches at most 200 rows of each of its two queries: what differs behind them passes.
CAPPED_TYPE = "expect_query_results_to_match_comparison"


def _known_type(value: str) -> str:
    if value == CAPPED_TYPE:
        raise ValueError(
            f"{value} looks at no more than 200 rows of each query, and passes whatever differs behind them. Declare"
            " `reconcile.control_totals`, or an `unexpected_rows_expectation` that counts what is wrong"
        )
    if value not in EXPECTATION_TYPES:
        near = nearest(value, EXPECTATION_TYPES)
        cure = f"Did you mean `{near}`?" if near else "Its gallery lists them"
        raise ValueError(f"{redacted(value)} is not an expectation of Great Expectations. {cure}")
    return value


ExpectationType = Annotated[
    str,
    AfterValidator(_known_type),
    WithJsonSchema({"type": "string", "enum": [one for one in EXPECTATION_TYPES if one != CAPPED_TYPE]}),
]


class Check(Declared):
    """One expectation of Great Expectations on one staged table."""

    table: SqlName = Field(description="Table of the sync, or a derived table.")
    type: ExpectationType = Field(
        description="Type of the expectation as Great Expectations names it, as expect_column_values_to_be_unique.",
    )
    kwargs: dict[str, Any] = Field(
        default_factory=dict, description="Its arguments; a query names the staged table as {batch}."
    )
    why: str = Field("", description="What it means for the business when the check fails.")


class ExpectationsSpec(Declared):
    """A suite. What reconciliation found is checked beside it, always.

    The JSON of a suite that Great Expectations wrote, `<name>.json`, is taken as it is, if each of its expectations
    names its table: `"meta": {"table": "account"}`.
    """

    expectations: Name = Field(description="Name of the suite; the file has the same name.")
    checks: tuple[Check, ...] = Field(min_length=1, strict=False, description="The checks, in the order shown.")


class _Native(BaseModel):
    """What Great Expectations wrote: much in it is of no use here."""

    model_config = ConfigDict(frozen=True, extra="ignore", strict=True)


class NativeMeta(_Native):
    table: SqlName = Field(description="Table of the sync, or a derived table.")
    why: str = Field("", description="What it means for the business when the check fails.")


class NativeCheck(_Native):
    type: ExpectationType = Field(description="Type of the expectation.")
    kwargs: dict[str, Any] = Field(default_factory=dict, description="Its arguments.")
    meta: NativeMeta = Field(description="Here `table` says of which table it is.")


class NativeSuite(_Native):
    name: Name = Field(description="Name of the suite; the file has the same name.")
    expectations: tuple[NativeCheck, ...] = Field(min_length=1, strict=False, description="The expectations.")

    def as_declared(self) -> ExpectationsSpec:
        checks = tuple(
            Check(table=one.meta.table, type=one.type, kwargs=one.kwargs, why=one.meta.why) for one in self.expectations
        )
        return ExpectationsSpec(expectations=self.name, checks=checks)
