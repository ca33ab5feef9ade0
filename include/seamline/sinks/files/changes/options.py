"""What a declaration says of change files beyond what it says of every destination of files."""

from dataclasses import dataclass

from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan

_MB = 2**20


@dataclass(frozen=True, slots=True)
class ChangesOptions:
    """`keep_days`: None where every change is kept."""

    location: str
    compact_below_bytes: int
    compact_from_files: int
    keep_days: int | None
    before_image: bool = False


def changes_options(destination: DestinationPlan) -> ChangesOptions:
    found = dict(destination.options)
    try:
        keep = found["keep_days"]
        return ChangesOptions(
            found["location"],
            int(found["compact_below_mb"]) * _MB,
            int(found["compact_from_files"]),
            int(keep) if keep else None,
            found["before_image"] == "true",
        )
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc
