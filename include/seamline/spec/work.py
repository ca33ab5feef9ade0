"""`reconcile.work` of a sync: how people work on its breaks."""

from pydantic import Field, field_validator

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
        return WorkRules(declared or REASONS)
