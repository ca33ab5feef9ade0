"""A business date as somebody typed it."""

from datetime import date

from seamline.domain.errors import ConfigError


def day_of_argument(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError as exc:
        raise ConfigError(f"{text!r} is not a business date", hint="write it as 2026-11-19") from exc
