"""The small types that declarations are made of: names, durations, times of day, time zones."""

import re
from datetime import date, timedelta
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from seamline.domain.calendar import zone
from seamline.domain.catalogue import NAME_BYTES_MAX
from seamline.domain.errors import ConfigError
from seamline.domain.table_places import SEPARATOR
from seamline.spec.faults import redacted

NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
NAME_LENGTH_MAX = 40
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
IDENTIFIER_LENGTH_MAX = 63
# Letters and digits of any script, `_`, `$`, `-`, quotes, and blanks inside. Other signs of ASCII mean something where
# names stand in a list, a path or a pattern; a backtick ends a name in the statements that Debezium sends.
SQL_NAME = re.compile(r"(?! )[^\x00-\x1f!#%&(-,./:-@\[-\^`{-\x7f]+(?<! )")
# MariaDB and MySQL take so many letters, PostgreSQL 63 bytes.
SQL_NAME_LENGTH_MAX = 64
WHY_LENGTH_MAX = 200
TRANSFORM_FILE = re.compile(r"include/transforms/[a-z][a-z0-9]*(_[a-z0-9]+)*\.(sql|py)")
# How both sides of a comparison of live tables are brought to one position.
BY_BARRIER, BY_LOG = MODES = ("barrier", "log")
_DURATION = re.compile(r"([0-9]{1,6})(s|min|h|d)")
_UNIT_S = {"s": 1, "min": 60, "h": 3600, "d": 86400}
_TIME_OF_DAY = re.compile(r"([01][0-9]|2[0-3]):[0-5][0-9]")


class Declared(BaseModel):
    """What every declaration has in common: it never changes and knows no keys but its own."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _name(value: str) -> str:
    if not NAME.fullmatch(value):
        # Names become topics, DAG ids (`<sync>__nightly`), connectors and files: one form that all of them take.
        raise ValueError(
            "a name has lower case letters a to z, digits and single underscores, and begins with a letter, got"
            f" {redacted(value)}"
        )
    return _of_length(value, NAME_LENGTH_MAX, "a name")


def _identifier(value: str) -> str:
    if not IDENTIFIER.fullmatch(value):
        raise ValueError(
            f"an identifier has letters a to z, digits and underscores, and begins with no digit, got {redacted(value)}"
        )
    return _of_length(value, IDENTIFIER_LENGTH_MAX, "an identifier")


def _of_length(value: str, most: int, what: str) -> str:
    if len(value) > most:
        raise ValueError(f"{what} has at most {most} characters, got {len(value)}: {redacted(value)}")
    return value


def is_sql_name(value: str) -> bool:
    """Whether tables and columns may be called so in some database. What a destination takes is its kind's to say."""
    return bool(SQL_NAME.fullmatch(value)) and value.isprintable() and len(value) <= SQL_NAME_LENGTH_MAX


def _sql_name(value: str) -> str:
    _of_length(value, SQL_NAME_LENGTH_MAX, "a name of a table or column")
    if not is_sql_name(value):
        raise ValueError(
            "a column, or a table at a destination, is named by letters and digits of any script, `_`, `$`, `-`, quotes"
            f" and blanks inside, got {redacted(value)}"
        )
    return value


def _sql_name_everywhere(value: str) -> str:
    if len(value.encode()) > NAME_BYTES_MAX:
        raise ValueError(f"no name in PostgreSQL has more than {NAME_BYTES_MAX} bytes, got {redacted(value)}")
    return value


def is_table_place(value: str) -> bool:
    """Whether a table may be declared so: by its name, or by that of its schema or database, a dot, and its name."""
    parts = value.split(SEPARATOR)
    return len(parts) <= 2 and all(map(is_sql_name, parts))


def _table_place(value: str) -> str:
    longest = max(map(len, value.split(SEPARATOR)))
    if longest > SQL_NAME_LENGTH_MAX:
        said = f"a table or schema has a name of at most {SQL_NAME_LENGTH_MAX} characters, not {longest}"
    elif not is_table_place(value):
        said = (
            "a table is named `table`, or `schema.table` (in MariaDB `database.table`), each by letters and digits of"
            " any script, `_`, `$`, `-`, quotes and blanks inside"
        )
    else:
        return value
    raise ValueError(
        f"{said}, got {redacted(value)}. Rename it at the source; for a table, leave a view under the old name to those"
        " who use it"
    )


def _connection(value: str) -> str:
    if not NAME.fullmatch(value):
        # The value is not repeated: somebody may have written an address with a password here.
        raise ValueError("this is the id of a connection (lower case letters, digits, underscores), not an address")
    return value


def _schema(value: str) -> str:
    value = _identifier(value)
    if value.startswith("pg_") or value in ("seamline", "information_schema"):
        raise ValueError(f"schema {redacted(value)} belongs to the database or to Seamline; choose another")
    if value.endswith(("_cut", "_stage")):
        raise ValueError(
            f"schema {redacted(value)}: the endings _cut and _stage are those of the schemas made beside this one"
        )
    if len(value) > IDENTIFIER_LENGTH_MAX - len("_incremental_0123456789"):
        raise ValueError(
            f"schema {redacted(value)} is too long: _incremental_ and a mark are added to it, 40 characters are the"
            " limit"
        )
    return value


def _duration(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"a duration is a whole number with s, min, h or d, as 2h or 90min, got {redacted(value)}")
    return timedelta(seconds=int(match[1]) * _UNIT_S[match[2]])


def duration_text(duration: timedelta) -> str:
    """The duration as a declaration writes it, in the largest unit that leaves a whole number."""
    seconds = int(duration.total_seconds())
    unit = next(name for name in ("d", "h", "min", "s") if seconds % _UNIT_S[name] == 0)
    # 24h reads better than 1d where hours are counted, so days are used from two on.
    if unit == "d" and seconds < 2 * _UNIT_S["d"]:
        unit = "h"
    return f"{seconds // _UNIT_S[unit]}{unit}"


def _day(value: object) -> object:
    """With quotes around it a day is a text to YAML."""
    if not isinstance(value, str):
        return value
    try:
        return date.fromisoformat(value)
    except ValueError:
        raise ValueError(f"a day as 2027-03-31, got {redacted(value)}") from None


def is_time_of_day(value: str) -> bool:
    return bool(_TIME_OF_DAY.fullmatch(value))


def _time_of_day(value: str) -> str:
    if not is_time_of_day(value):
        raise ValueError(f'a time of day is written "HH:MM" in quotes, from 00:00 to 23:59, got {redacted(value)}')
    return value


def _timezone(value: str) -> str:
    try:
        zone(value)
    except ConfigError as error:
        raise ValueError(f"{redacted(value)} is not a time zone; {error.hint}") from error
    return value


def _transform_file(value: str) -> str:
    if not TRANSFORM_FILE.fullmatch(value):
        raise ValueError(
            f"{redacted(value)} is no file of a transform: write include/transforms/<name>.sql or .py, with small"
            " letters, digits and `_` in the name"
        )
    return value


def _transforms(value: object) -> str | dict[str, str]:
    """One file for all destinations, or a file for each of those that are named."""
    if isinstance(value, str):
        return _transform_file(value)
    files = value if isinstance(value, dict) else {}
    if not files or not all(isinstance(part, str) for pair in files.items() for part in pair):
        raise ValueError(
            f"{redacted(value)} is no transform: write a file for all destinations, or below `transform:` a line"
            " `<destination>: <file>` for each one that does not hold the source's rows"
        )
    return {name: _transform_file(file) for name, file in files.items()}


def _modes(value: object) -> str | dict[str, str]:
    """One mode for all destinations, or one for each of those that are named."""
    modes = value if isinstance(value, dict) else {"": value}
    if not modes or not all(isinstance(name, str) and mode in MODES for name, mode in modes.items()):
        raise ValueError(
            f"{redacted(value)} is no mode: write {' or '.join(MODES)} for all destinations, or below `mode:` a line"
            " `<destination>: <mode>` for each one that is not compared by the barrier"
        )
    return {str(name): str(mode) for name, mode in modes.items()} if isinstance(value, dict) else str(value)


def _why(value: str) -> str:
    """One line, as reports and terminals show it: nothing in it moves a cursor."""
    line = " ".join(value.split())
    if not line or not line.isprintable() or len(line) > WHY_LENGTH_MAX:
        raise ValueError(f"a reason is one line of text for people, of at most {WHY_LENGTH_MAX} characters")
    return line


Name = Annotated[
    str,
    AfterValidator(_name),
    WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$", "maxLength": NAME_LENGTH_MAX}),
]
Identifier = Annotated[
    str,
    AfterValidator(_identifier),
    WithJsonSchema({"type": "string", "pattern": f"^{IDENTIFIER.pattern}$", "maxLength": IDENTIFIER_LENGTH_MAX}),
]
SqlName = Annotated[
    str,
    AfterValidator(_sql_name),
    WithJsonSchema({"type": "string", "pattern": f"^{SQL_NAME.pattern}$", "maxLength": SQL_NAME_LENGTH_MAX}),
]
# One that every destination takes.
SqlNameEverywhere = Annotated[SqlName, AfterValidator(_sql_name_everywhere)]
TablePlaceName = Annotated[
    str,
    AfterValidator(_table_place),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": f"^{SQL_NAME.pattern}(\\.{SQL_NAME.pattern})?$",
            "maxLength": 2 * SQL_NAME_LENGTH_MAX + 1,
        }
    ),
]
ConnectionId = Annotated[
    str, AfterValidator(_connection), WithJsonSchema({"type": "string", "pattern": f"^{NAME.pattern}$"})
]
SchemaName = Annotated[
    str, AfterValidator(_schema), WithJsonSchema({"type": "string", "pattern": f"^{IDENTIFIER.pattern}$"})
]
_TRANSFORM_SCHEMA = {"type": "string", "pattern": f"^{TRANSFORM_FILE.pattern}$"}
TransformFile = Annotated[str, AfterValidator(_transform_file), WithJsonSchema(_TRANSFORM_SCHEMA)]
# PlainValidator: of a union pydantic would report each type that a value is not.
Transforms = Annotated[
    str | dict[str, str],
    PlainValidator(_transforms),
    WithJsonSchema(
        {
            "anyOf": [
                _TRANSFORM_SCHEMA,
                {
                    "type": "object",
                    "additionalProperties": _TRANSFORM_SCHEMA,
                    "propertyNames": {"pattern": f"^{NAME.pattern}$"},
                    "minProperties": 1,
                },
            ]
        }
    ),
]
_MODE_SCHEMA = {"type": "string", "enum": list(MODES)}
Modes = Annotated[
    str | dict[str, str],
    PlainValidator(_modes),
    WithJsonSchema(
        {
            "anyOf": [
                _MODE_SCHEMA,
                {
                    "type": "object",
                    "additionalProperties": _MODE_SCHEMA,
                    "propertyNames": {"pattern": f"^{NAME.pattern}$"},
                    "minProperties": 1,
                },
            ]
        }
    ),
]
Why = Annotated[
    str, AfterValidator(_why), WithJsonSchema({"type": "string", "pattern": "\\S", "maxLength": WHY_LENGTH_MAX})
]
Duration = Annotated[
    timedelta,
    BeforeValidator(_duration),
    PlainSerializer(duration_text, return_type=str),
    WithJsonSchema({"type": "string", "pattern": f"^{_DURATION.pattern}$", "examples": ["2h", "90min"]}),
]
Day = Annotated[date, BeforeValidator(_day)]
TimeOfDay = Annotated[
    str,
    AfterValidator(_time_of_day),
    WithJsonSchema({"type": "string", "pattern": f"^{_TIME_OF_DAY.pattern}$", "examples": ["00:30"]}),
]
TimeZone = Annotated[
    str, AfterValidator(_timezone), WithJsonSchema({"type": "string", "examples": ["Asia/Shanghai", "UTC"]})
]
