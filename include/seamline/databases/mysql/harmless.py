"""Harmless statements: they change no stored value of a table, and nothing by which its rows are identified.

Every other statement is taken for harmful. `ALTER IGNORE` is not in the lists: to make a unique index it
deletes rows, and no log holds that.
"""

import re
from collections.abc import Iterator, Sequence

# A quoted name is a number between zeros, texts and comments are gone: see `binlog_decoder._Statement`.
_NAME = r"(?:\0\d+\0|[\w$]+)"
_IF = r"(?:\s+if\s+(?:not\s+)?exists)?"
# No letter of a name follows.
_END = r"(?![\w$])"
_TABLE = rf"{_NAME}(?:\s*\.\s*{_NAME})?"
_ALTER = re.compile(rf"\s*alter\s+(?:online\s+)?table{_IF}\s+{_TABLE}{_END}(?:\s+wait\s+\d+|\s+nowait)?", re.IGNORECASE)
_OF_INDEX = re.compile(
    rf"\s*(?:create\s+(?:or\s+replace\s+)?(?:(?:unique|fulltext|spatial)\s+)?index{_END}"
    rf"|drop\s+index{_IF}\s+(?P<dropped>{_NAME})\s+on{_END})",
    re.IGNORECASE,
)
# Each of them changes how rows are kept, and not what is in them. A text of an option is gone.
_OPTION = (
    r"(?:engine\s*=?\s*innodb|comment\s*=?\s*(?:\0\d+\0)?|row_format\s*=?\s*\w+"
    r"|(?:auto_increment|avg_row_length|checksum|delay_key_write|key_block_size|max_rows|min_rows|pack_keys"
    r"|page_checksum|page_compressed|page_compression_level|stats_auto_recalc|stats_persistent|stats_sample_pages)"
    r"\s*=?\s*(?:\d+|default))"
)
_ACTIONS = tuple(
    re.compile(rf"\s*{action}", re.IGNORECASE | re.DOTALL)
    for action in (
        # Key words, which stand for no column.
        rf"add\s+(?:index|key|fulltext|spatial){_END}.*",
        rf"add\s+(?:constraint{_END}{_IF}(?:\s+(?!(?:unique|check){_END}){_NAME})?\s+)?(?:unique|check){_END}.*",
        rf"drop\s+(?:index|key|constraint){_IF}\s+(?P<dropped>{_NAME})\s*",
        rf"drop\s+foreign\s+key{_IF}\s+{_NAME}\s*",
        rf"rename\s+(?:index|key){_END}.*",
        rf"alter\s+(?:index|key){_IF}\s+{_NAME}\s+(?:not\s+)?ignored\s*",
        rf"alter\s+(?:column\s+)?(?:if\s+exists\s+)?{_NAME}\s+(?:set\s+default{_END}.*|drop\s+default\s*)",
        r"force\s*",
        r"(?:enable|disable)\s+keys\s*",
        r"(?:algorithm|lock)\s*=?\s*\w+\s*",
        rf"{_OPTION}(?:\s+{_OPTION})*\s*",
    )
)


def is_harmless(plain: str, names: Sequence[str]) -> bool:
    """`plain`: a statement without its comments and texts, and with a number for each of its quoted `names`."""
    if match := _OF_INDEX.match(plain):
        return not _is_primary(match["dropped"], names)
    start = _ALTER.match(plain)
    # What is done to partitions stands behind the last action, without a comma.
    if start is None or "partition" in plain.casefold():
        return False
    return all(_is_harmless(action, names) for action in _split(plain[start.end() :]))


def _is_harmless(action: str, names: Sequence[str]) -> bool:
    for pattern in _ACTIONS:
        if match := pattern.fullmatch(action):
            return not _is_primary(match.groupdict().get("dropped"), names)
    return False


def _is_primary(name: str | None, names: Sequence[str]) -> bool:
    """A primary key is dropped by this name, too."""
    if not name:
        return False
    return (names[int(name.strip("\0"))] if name.startswith("\0") else name).casefold() == "primary"


def _split(actions: str) -> Iterator[str]:
    """At the commas outside of brackets."""
    depth = start = 0
    for at, letter in enumerate(actions):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield actions[start:at]
            start = at + 1
    yield actions[start:]
