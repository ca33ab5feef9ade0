"""The logins of the roles at a source and at a destination, whatever kind it is.

Each source has logins of its own: two that lie on one server would else share one, and the second script would not give
it the second password.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Logins:
    """Login names of a source's roles; one login may hold several."""

    capture: str
    reader: str
    marker: str


def logins_of(source: str) -> Logins:
    """Those that a source gets where its connections name no others."""
    return Logins(*(f"seamline_{source}_{role}" for role in ("capture", "reader", "marker")))


@dataclass(frozen=True, slots=True)
class DestinationLogins:
    """Login names of a destination's roles; one login may hold both."""

    publisher: str = "seamline_publisher"
    writer: str = "seamline_writer"
