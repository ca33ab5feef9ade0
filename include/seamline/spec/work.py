"""`reconcile.work` of a sync: how people work on its breaks."""

from decimal import Decimal
from itertools import pairwise

from pydantic import Field, field_validator, model_validator

from seamline.domain.break_age import DAYS
from seamline.domain.break_work import REASONS, Reason, WorkRules
from seamline.domain.severity import Severity
from seamline.spec.fields import Declared, Duration, Name, Why


class ReasonCode(Declared):
    """A reason with which a break is explained."""

    code: Name = Field(description="What reports and the log of acts call it.")
    text: Why = Field(description="What it means, for the person who chooses it.")
    comment_required: bool = Field(default=False, description="Whether it is taken with a comment only.")


class SeverityClass(Declared):
    """Breaks that are severe by their amount or their age, with a clock."""

    class_: Name = Field(alias="class", description="Name of the class.")
    amount: float | None = Field(
        None, gt=0, description="A break that differs by so much in a summed column, or by more, is in the class."
    )
    currency: Why | None = Field(
        None,
        description="With `amount`: of breaks of this group of a control total alone. One whose group its row does not"
        " say counts too. Left out: of any.",
    )
    age: Duration | None = Field(None, description="A break that was first found so long ago is in the class.")
    due: Duration = Field(description="So long after it came into the class it is late.")
    escalate_to: Why | None = Field(
        None,
        description="Airflow user who sees it then as well, by the name that the log of acts has; case does not count.",
    )

    @model_validator(mode="after")
    def _is_by_amount_or_age(self) -> "SeverityClass":
        if self.amount is None and self.age is None:
            raise ValueError("needs `amount` or `age`")
        if self.currency is not None and self.amount is None:
            raise ValueError("`currency` is about `amount`, which is missing")
        return self

    def severity(self) -> Severity:
        return Severity(
            self.class_,
            self.due,
            None if self.amount is None else Decimal(repr(self.amount)),
            self.currency or "",
            self.age,
            self.escalate_to or "",
        )


class Work(Declared):
    """What people may do about breaks on the page."""

    reasons: tuple[ReasonCode, ...] = Field(
        (),
        description=f"Reasons with which breaks are explained. None: {', '.join(reason.code for reason in REASONS)}.",
        strict=False,
    )

    ages: tuple[int, ...] = Field(
        DAYS,
        description="Bands of age: the last day of each but the last one, which has no end.",
        strict=False,
        min_length=1,
        max_length=20,
    )

    severity: tuple[SeverityClass, ...] = Field(
        (),
        description="Classes of severity; the first one counts that a break is in. None: no break is ever late.",
        strict=False,
    )

    @field_validator("ages")
    @classmethod
    def _grows(cls, value: tuple[int, ...]) -> tuple[int, ...]:
        if value[0] < 0 or any(one >= after for one, after in pairwise(value)):
            raise ValueError("days from 0 on, each more than the one before")
        return value

    @field_validator("reasons")
    @classmethod
    def _has_each_once(cls, value: tuple[ReasonCode, ...]) -> tuple[ReasonCode, ...]:
        codes = [reason.code for reason in value]
        if twice := sorted({code for code in codes if codes.count(code) > 1}):
            raise ValueError(f"each code stands once, {', '.join(twice)} stands twice")
        return value

    def rules(self) -> WorkRules:
        """The same as the page uses it, with what holds where nothing is declared."""
        declared = tuple(Reason(one.code, one.text, one.comment_required) for one in self.reasons)
        return WorkRules(declared or REASONS, self.ages, tuple(one.severity() for one in self.severity))
