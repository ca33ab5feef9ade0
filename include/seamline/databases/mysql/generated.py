"""Whether a VIRTUAL generated column is a function of its row alone, read from the expression that the server prints.

The server computes it for each reader and writes into the log what the writer's session saw. What depends on
anything else, as the day or a session's time zone, changes without a record, and nobody learns of it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

# What is in none of these lists is refused: the default of a session (`week`, `regexp`), a language (`date_format`), a
# time zone (`unix_timestamp`) and the moment (`curdate`) are hidden in functions that look harmless.
_TEXT_FUNCTIONS = (
    "ascii bit_length char_length concat concat_ws elt field find_in_set hex insert instr lcase left length locate"
    " lower lpad ltrim octet_length ord repeat replace reverse right rpad rtrim soundex space strcmp substr substring"
    " substring_index trim ucase unhex upper crc32 md5 sha sha1 sha2 to_base64 from_base64 convert"
)
_NUMBER_FUNCTIONS = (
    "abs bit_count ceil ceiling conv degrees exp floor greatest least ln log log10 log2 mod pow power radians round"
    " sign sqrt truncate"
)
_CHOICES = "coalesce if ifnull isnull nullif nvl nvl2 cast"
# None of these gives a TIME, which the server may complete with the day of now.
_DATE_FUNCTIONS = (
    "date datediff day dayofmonth dayofweek dayofyear extract hour last_day microsecond minute month quarter second"
    " timestampdiff to_days weekday year"
)
_JSON_FUNCTIONS = (
    "json_contains json_exists json_extract json_length json_query json_type json_unquote json_valid json_value"
)
_KEYWORDS = (
    "and or xor not is null true false unknown in between like escape case when then else end div mod interval both"
    " leading trailing from as using charset collate"
)
_UNITS = (
    "microsecond second minute hour day week month quarter year second_microsecond minute_microsecond minute_second"
    " hour_microsecond hour_second hour_minute day_microsecond day_second day_minute day_hour year_month"
)
_BEFORE_BRACKET = frozenset(
    f"{_TEXT_FUNCTIONS} {_NUMBER_FUNCTIONS} {_CHOICES} {_DATE_FUNCTIONS} {_JSON_FUNCTIONS} {_KEYWORDS}".split()
)
_ALONE = frozenset(f"{_KEYWORDS} {_UNITS}".split())
# Behind AS in a CAST. Not TIME, for the reason above; not DATETIME, which is rounded by the session's sql_mode.
_CAST_TYPES = frozenset(
    ["signed", "unsigned", "integer", "int", "decimal", "double", "char", "varchar", "binary", "date"]
)
# A word before a text that says how the text is meant; `TIME'…'` is none of them.
_PREFIX = re.compile(r"_\w+|date|timestamp")
_NAMED_BEHIND = frozenset(["using", "charset", "collate"])
_NOT_OF_THE_ROW = {
    "timestamp": "a TIMESTAMP, which each session sees in its own time zone",
    "time": "a TIME, which the server may complete with the day of now",
}
_TOKEN = re.compile(
    r"\s+|(?P<text>'(?:[^'\\]|\\.|'')*')|`(?P<column>(?:[^`]|``)+)`|(?P<number>0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)"
    r"|(?P<word>[A-Za-z_]\w*)|(?P<sign>[-+*/%&|^~<>=!(),])|(?P<other>.)",
    re.DOTALL,
)
_Token = tuple[str, str]
_END: _Token = ("", "")


def virtual_fault(expression: str, *, own_type: str, types: Mapping[str, str]) -> str:
    """Why a VIRTUAL column may differ between two readers of one row; "" where it cannot. `types`: column of the table
    → its data type; `own_type` is the column's own."""
    why = _reason(list(_tokens(expression)), own_type, types)
    if not why:
        return ""
    return f"it is VIRTUAL, which is computed for each reader, and {why} (STORED it would stay as written)"


def _reason(tokens: Sequence[_Token], own_type: str, types: Mapping[str, str]) -> str:
    if not tokens:
        return "the server does not show its expression"
    if own_type == "timestamp":
        return "is a TIMESTAMP, which is made of its expression by the session's time zone"
    for at, (kind, token) in enumerate(tokens):
        before = tokens[at - 1] if at else _END
        if kind == "column" and (why := _column_reason(token, tokens[at + 1 : at + 4], types)):
            return why
        if kind == "word" and not _is_known(token, before, _next(tokens, at)):
            return f"`{token}` in its expression is not known to depend on the row alone"
        if kind == "other":
            return f"its expression holds {token}, which is not known to depend on the row alone"
    return ""


def _column_reason(name: str, behind: Sequence[_Token], types: Mapping[str, str]) -> str:
    """Whether a value is NULL is the same for everybody."""
    words = [token for _, token in behind]
    if words[:2] == ["is", "null"] or words == ["is", "not", "null"]:
        return ""
    what = _NOT_OF_THE_ROW.get(types.get(name, ""))
    if name not in types:
        what = "which is no column of the table"
    return f"reads `{name}`, {what}" if what else ""


def _is_known(word: str, before: _Token, behind: _Token) -> bool:
    if before[0] == "word" and before[1] in _NAMED_BEHIND:
        return True
    if before == ("word", "as"):
        return word in _CAST_TYPES
    if behind == ("sign", "("):
        return word in _BEFORE_BRACKET
    return word in _ALONE or (behind[0] == "text" and _PREFIX.fullmatch(word) is not None)


def _next(tokens: Sequence[_Token], at: int) -> _Token:
    return tokens[at + 1] if at + 1 < len(tokens) else _END


def _tokens(expression: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(expression):
        if match.lastgroup == "column":
            yield "column", match["column"].replace("``", "`")
        elif match.lastgroup is not None:
            yield match.lastgroup, match[match.lastgroup].lower()
