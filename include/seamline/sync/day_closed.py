"""Whether the source has closed a business date, by `ready_when` or by its own system date."""

from collections.abc import Callable, Sequence
from datetime import date
from pathlib import Path

from seamline.domain.day_closed import DATE_IN_NAME, ClosedBy, DayClosed, Look, by_answer, by_system_date
from seamline.domain.errors import Refused
from seamline.ports.questions import AnswersQuestions


def look(wanted: DayClosed, business_date: date, *, source: Callable[[], AnswersQuestions], files: Path) -> Look:
    """One look. `source` is opened only where it is asked; `files`: the folder that files are below. An asset's events
    only Airflow knows, and a delivery the source that it is made to."""
    match wanted.by:
        case ClosedBy.SQL:
            rows = source().ask(wanted.what, business_date)
            return by_answer(rows[0][0] if rows else None)
        case ClosedBy.SYSTEM_DATE:
            return by_system_date(list(source().values_of(wanted.what, wanted.column)), business_date)
        case ClosedBy.FILE:
            file = files / wanted.what.replace(DATE_IN_NAME, business_date.isoformat())
            return Look(file.is_file(), f"{file} is not there")
        case ClosedBy.ASSET | ClosedBy.DELIVERY:
            raise Refused(f"{wanted.what} is looked at by whoever knows the plan")


def is_closed_as_asked(
    wanted: Sequence[DayClosed], business_date: date, *, source: Callable[[], AnswersQuestions]
) -> bool:
    """Whether the source has closed a date by all that it can be asked for, in a process that sees no files and no
    events; False where it can be asked for nothing. Raises what the source does."""
    asked = [one for one in wanted if one.by in (ClosedBy.SQL, ClosedBy.SYSTEM_DATE)]
    return bool(asked) and all(look(one, business_date, source=source, files=Path()).is_closed for one in asked)
