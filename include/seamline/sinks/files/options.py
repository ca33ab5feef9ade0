"""What a declaration says of a destination of files beyond its connection and place, as its plan carries it."""

import json
from dataclasses import dataclass

from seamline.domain.errors import Refused
from seamline.files.dialect import Dialect
from seamline.plan.model import DestinationPlan


@dataclass(frozen=True, slots=True)
class Total:
    """`sum`: the column that is added up, a sum for each value of the columns `by`."""

    table: str
    sum: str
    by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FilesOptions:
    """`staging`: a folder or a place on S3. `format`: `CSV` or `PARQUET`."""

    staging: str
    staging_connection: str
    format: str
    dialect: Dialect
    totals: tuple[Total, ...]
    control_file: str
    flag_file: str

    def totals_of(self, table: str) -> tuple[Total, ...]:
        return tuple(total for total in self.totals if total.table == table)


def options_of(destination: DestinationPlan) -> FilesOptions:
    found = dict(destination.options)
    try:
        return FilesOptions(
            found["staging"],
            found["staging_connection"],
            found["format"],
            Dialect(**json.loads(found["csv"])),
            tuple(Total(one["table"], one["sum"], tuple(one["by"])) for one in json.loads(found["control_totals"])),
            found["control_file"],
            found["flag_file"],
        )
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc
