"""The logins of a source's roles, whatever kind it is."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Logins:
    """Login names of the roles; one login may hold several."""

    capture: str = "seamline_capture"
    reader: str = "seamline_reader"
    marker: str = "seamline_marker"
