"""What a declaration says of an Iceberg destination beyond connections and namespace, as its plan carries it."""

from dataclasses import dataclass

from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan

NATIVE, SPARK = "native", "spark"


@dataclass(frozen=True, slots=True)
class LakeOptions:
    """`catalog`: the catalogue's name, by which all its clients call it. `warehouse`: a folder."""

    catalog: str
    warehouse: str
    write: str = NATIVE


def options_of(destination: DestinationPlan) -> LakeOptions:
    found = dict(destination.options)
    try:
        return LakeOptions(found["catalog"], found["warehouse"], found.get("write", NATIVE))
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc
