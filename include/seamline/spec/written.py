"""Values as the files that Seamline writes have them."""

import json

from seamline.spec.fields import NAME

# Which YAML 1.1 takes for something else.
_NO_WORDS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def text(value: str) -> str:
    """A plain word as it is, else as JSON has it, which YAML reads alike."""
    is_word = NAME.fullmatch(value) is not None and value not in _NO_WORDS
    return value if is_word else json.dumps(value, ensure_ascii=not value.isprintable())
