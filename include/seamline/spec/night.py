"""When a night of a sync may cut its date, and by when its stages are to be through."""

import re
from datetime import timedelta
from typing import Annotated

from pydantic import (
    AfterValidator,
    Field,
    TypeAdapter,
    WithJsonSchema,
    WrapValidator,
    field_validator,
    model_validator,
)

from seamline.domain.day_closed import DATE_IN_NAME, DATE_PARAMETER, with_placeholders
from seamline.spec.faults import redacted
from seamline.spec.fields import Declared, Duration, SqlName, TablePlaceName, TimeOfDay

_FILE = re.compile(r"(?!/)(?!.*\.\.)[A-Za-z0-9_./{}-]{1,200}")
_ASSET = re.compile(r"[A-Za-z0-9_.:/-]{1,200}")


def _file(value: str) -> str:
    if not _FILE.fullmatch(value) or DATE_IN_NAME not in value:
        raise ValueError(
            f"{redacted(value)} is no name of a file below SEAMLINE_READY_FILES: letters, digits, `_`, `-`, `.` and"
            f" `/`, with {DATE_IN_NAME} in it, as core_bank/closed_{DATE_IN_NAME}.ok"
        )
    return value


ReadyFile = Annotated[str, AfterValidator(_file), WithJsonSchema({"type": "string", "pattern": f"^{_FILE.pattern}$"})]
AssetName = Annotated[str, Field(pattern=f"^{_ASSET.pattern}$")]


class SystemDate(Declared):
    """The core system's own date, which moves on when its day is closed."""

    table: TablePlaceName = Field(description="Table of the source that holds it, in one row or in one for each unit.")
    column: SqlName = Field(description="Column that holds the date.")


_TIME = TypeAdapter(TimeOfDay)


def _cut_off(value: object, _: object) -> str | SystemDate:
    """Each form by itself: of a union pydantic would report both."""
    if isinstance(value, (dict, SystemDate)):
        return SystemDate.model_validate(value)
    return _TIME.validate_python(value, strict=True)


CutOff = Annotated[TimeOfDay | SystemDate, WrapValidator(_cut_off)]


class ReadyWhen(Declared):
    """What says that the source's day is closed. One of `sql`, `file` and `asset`."""

    sql: str | None = Field(
        None,
        description="Query by the reader's login, with `:date` for the business date. Closed when the first value of"
        " its first row is true.",
    )
    file: ReadyFile | None = Field(
        None,
        description="Name of a file below SEAMLINE_READY_FILES, with `{date}` for the business date as 2026-11-25."
        " Closed when it is there.",
    )
    asset: AssetName | None = Field(
        None, description="Name of an Airflow asset. Closed when it has an event with the business date as partition."
    )
    every: Duration = Field(
        timedelta(minutes=1), json_schema_extra={"default": "1min"}, description="Time between two looks."
    )

    @field_validator("sql")
    @classmethod
    def _asks_for_the_date(cls, value: str | None) -> str | None:
        if value is not None and not with_placeholders(value)[1]:
            raise ValueError(f"has no {DATE_PARAMETER}: it would say the same of every business date")
        if value is not None and value.split(maxsplit=1)[0].lower() not in ("select", "with"):
            raise ValueError("is no query: it begins with `select` or `with`")
        return value

    @field_validator("every")
    @classmethod
    def _is_no_flood(cls, value: timedelta) -> timedelta:
        if not timedelta(seconds=5) <= value <= timedelta(hours=1):
            raise ValueError("between 5s and 1h")
        return value

    @model_validator(mode="after")
    def _says_one_thing(self) -> "ReadyWhen":
        said = [key for key in ("sql", "file", "asset") if getattr(self, key) is not None]
        if len(said) != 1:
            raise ValueError("needs one of sql, file, asset" + (f", and has {' and '.join(said)}" if said else ""))
        return self


class StagesBy(Declared):
    """Local times of the day after the date by which stages of a night are to be through. What is late is an alarm; the
    night goes on."""

    closed: TimeOfDay | None = Field(None, description="The source has closed its day (`ready_when`, `cut_off`).")
    cut: TimeOfDay | None = Field(None, description="The date is read and staged.")
    checks: TimeOfDay | None = Field(None, description="It is compared and checked.")
    publish: TimeOfDay | None = Field(None, description="It is published in every destination.")


class StagesWithin(Declared):
    """How long stages of an onboarding, or of a change of its tables, may take. What takes longer is an alarm; the run
    goes on."""

    preflight: Duration | None = Field(None, description="Source and destinations are checked. Without it: 15min.")
    capture: Duration | None = Field(None, description="The capture runs. Without it: 15min.")
    snapshot: Duration | None = Field(None, description="All tables are read and staged. Without it: 12h.")
    publish: Duration | None = Field(None, description="The tables are in place. Without it: 1h.")
    cutover: Duration | None = Field(None, description="The stream has come to the snapshot. Without it: 2h.")
    reconcile: Duration | None = Field(None, description="The live tables are compared. Without it: 6h.")

    def limits(self) -> dict[str, timedelta]:
        """Those that are declared."""
        return {name: value for name in type(self).model_fields if (value := getattr(self, name)) is not None}


class Onboard(Declared):
    """What is expected of the onboarding of a sync."""

    stages_within: StagesWithin = Field(
        default_factory=StagesWithin, description="How long its stages may take; what takes longer is an alarm."
    )
