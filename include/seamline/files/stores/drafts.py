"""Names of files that are written whole before they get the name that nobody else may have. Pure."""

import re
import secrets

_DRAFT = re.compile(r"\.(.+)\.[0-9a-f]{12}")


def draft_of(name: str) -> str:
    """A new one with each call."""
    return f".{name}.{secrets.token_hex(6)}"


def drafted(name: str) -> str:
    """The name that a draft was to have; "" of what is no draft."""
    found = _DRAFT.fullmatch(name)
    return found[1] if found else ""
