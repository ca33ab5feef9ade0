"""`reconcile.tolerances` of a sync: by how much a summed column may differ, until when, and who approves it."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from pydantic import Field, TypeAdapter, ValidationError, model_validator

from seamline.domain.errors import ConfigError
from seamline.domain.person import is_same_person, person_of
from seamline.domain.tolerance import Asked, DeclaredTolerance
from seamline.spec.document import Document, document_of
from seamline.spec.faults import redacted
from seamline.spec.fields import Day, Declared, Name, SqlName, Why


class ToleranceEntry(Declared):
    """A tolerance that holds once the person whom it names has approved this very text on the page."""

    table: SqlName = Field(description="Table of this sync, by its name in it.")
    column: SqlName = Field(description="Column that a control total of the sync sums.")
    destination: Name | None = Field(None, description="Left out: each destination, to be approved one by one.")
    amount: float = Field(gt=0, description="The most that a row may differ by in the column, this included.")
    until: Day = Field(description="Last day on which it holds, in the sync's zone: at most a year after its approval.")
    asked_by: Why = Field(description="Airflow user who wants it; another one than the approver.")
    approver: Why = Field(description="Airflow user who approves it on the page, and may sign for the sync.")
    reason: Why = Field(description="Why it may differ.")

    @model_validator(mode="after")
    def _is_of_two_people(self) -> "ToleranceEntry":
        if is_same_person(self.asked_by, self.approver):
            raise ValueError(f"{redacted(self.approver)} both asks for it and approves it: name another approver")
        return self


_ENTRIES = TypeAdapter(tuple[ToleranceEntry, ...])


def as_declared(
    entries: Sequence[ToleranceEntry], *, sync: str, destinations: Sequence[str]
) -> tuple[DeclaredTolerance, ...]:
    """Each in every destination that it is about, by the name of the sync's table."""
    return tuple(
        DeclaredTolerance(
            Asked(
                sync,
                destination,
                one.table,
                one.column,
                Decimal(repr(one.amount)),
                one.until,
                one.reason,
            ),
            person_of(one.asked_by),
            person_of(one.approver),
        )
        for one in entries
        for destination in ([one.destination] if one.destination else destinations)
    )


def declared_tolerances(folder: Path, sync: str) -> tuple[DeclaredTolerance, ...]:
    """Those of a sync, by its file alone; none where it says nothing or is not there.

    ConfigError where the file cannot say it.
    """
    file = folder / "syncs" / f"{sync}.yaml"
    document = document_of(file) if file.is_file() else None
    said = document.value(("reconcile", "tolerances")) if document else None
    if document is None or said is None:
        return ()
    try:
        # As a file has them: lists are no tuples.
        entries = _ENTRIES.validate_python(tuple(said) if isinstance(said, list) else said)
    except ValidationError as error:
        raise ConfigError(
            f"{file} does not say what of {sync} is tolerated", hint="`./seamline validate` says what is wrong in it"
        ) from error
    destinations = dict.fromkeys(name for _, name in document.texts("destinations[]"))
    return as_declared(entries, sync=sync, destinations=list(destinations))


def check_tolerances(document: Document) -> None:
    """Add to a sync's document each tolerance of a column that no control total sums, or of a destination that the sync
    has not."""
    # What is no text is a fault already.
    summed = [
        (document.value((*place[:3], "table")), column)
        for place, column in document.texts("reconcile.control_totals[].sum")
    ]
    for place, column in document.texts("reconcile.tolerances[].column"):
        table = document.value((*place[:3], "table"))
        if isinstance(table, str) and (table, column) not in summed:
            document.fault(
                place,
                f"no control total sums {redacted(column)} of {redacted(table)}",
                "Let `reconcile.control_totals` have an entry with this table and `sum`",
            )
    names = {name for _, name in document.texts("destinations[]")}
    for place, name in document.texts("reconcile.tolerances[].destination"):
        if name not in names:
            document.fault(
                place, f"the sync has no destination {redacted(name)}", f"Its destinations: {', '.join(sorted(names))}"
            )
