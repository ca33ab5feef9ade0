"""A sentence that may be said in another language: its English text with its values apart. Pure.

A phrase is its English text, so whatever takes a text takes it: exports, the terminal and what is stored are English.
The page looks up `pattern` in its catalogue and puts the values into what it finds there. A text made of phrases, by an
f-string or by `join`, has lost their patterns and stays English: `phrase` and `joined` make larger ones.
"""

from collections.abc import Iterable


class Phrase(str):
    """`pattern`: the English text with `%(name)s` where a value stands; it is the key in the catalogue. A value may be
    a phrase itself."""

    pattern: str
    values: dict[str, object]


def phrase(pattern: str, **values: object) -> Phrase:
    """A `%` that is meant as itself is written `%%`."""
    made = Phrase(pattern % values)
    made.pattern, made.values = pattern, values
    return made


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its noun, for texts that are English alone. `several`: where it is not `one` with an s."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def joined(by: str, parts: Iterable[str]) -> Phrase:
    """Phrases and other texts behind each other, with `by` between them, which stays as it is in every language."""
    values: dict[str, object] = {f"part{number}": part for number, part in enumerate(parts)}
    return phrase(by.replace("%", "%%").join(f"%({name})s" for name in values), **values)
