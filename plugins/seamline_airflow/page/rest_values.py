"""What every answer of REST is made of."""

from decimal import Decimal
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field


def _digits(value: object) -> object:
    return f"{value:f}" if isinstance(value, Decimal) else value


Amount = Annotated[str, BeforeValidator(_digits), Field(examples=["-1234567890123456789.01"])]


class Answer(BaseModel):
    """Made of the page's values by their attributes, or of the documents of a JSON export."""

    model_config = ConfigDict(from_attributes=True, frozen=True)
