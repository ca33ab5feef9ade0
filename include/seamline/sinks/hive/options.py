"""What a declaration says of a Hive destination beyond its connection and database, as its plan carries it."""

from dataclasses import dataclass

from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan


@dataclass(frozen=True, slots=True)
class HiveOptions:
    """`metastore`: connection id of the metastore's service. `warehouse`: a folder."""

    metastore: str
    warehouse: str


def options_of(destination: DestinationPlan) -> HiveOptions:
    found = dict(destination.options)
    try:
        return HiveOptions(found["metastore"], found["warehouse"])
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc
