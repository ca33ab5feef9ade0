"""What a declaration says of a Hudi destination beyond connections and namespace, as its plan carries it."""

from dataclasses import dataclass

from seamline.domain.errors import Refused
from seamline.plan.model import DestinationPlan


@dataclass(frozen=True, slots=True)
class HudiOptions:
    """`warehouse`: a folder."""

    warehouse: str


def options_of(destination: DestinationPlan) -> HudiOptions:
    try:
        return HudiOptions(dict(destination.options)["warehouse"])
    except KeyError as exc:
        raise Refused(
            f"the plan of destination {destination.name} does not say its {exc.args[0]}",
            hint="it was made by an earlier version: run the onboarding again",
        ) from exc
