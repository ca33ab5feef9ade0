"""`reconcile.work` of a sync: how people work on its breaks."""

from itertools import pairwise

from pydantic import Field, field_validator

from seamline.domain.break_age import DAYS
from seamline.domain.break_work import REASONS, Reason, WorkRules
from seamline.spec.fields import Declared, Name, Why


class ReasonCode(Declared):
    """A reason with which a break is explained."""

    code: Name = Field(description="What reports and the log of acts call it.")
    text: Why = Field(description="What it means, for the person who chooses it.")
    comment_required: bool = Field(default=False, description="Whether it is taken with a comment only.")


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
        return WorkRules(declared or REASONS, self.ages)
