"""How far a PostgreSQL standby is behind, by what its server says of its WAL."""

from dataclasses import dataclass
from typing import Any

import pytest

from seamline.domain.errors import ConfigError
from seamline.sources.postgres.server_load import replica_lag_s

INFINITE = float("inf")


@dataclass
class Standby:
    """Has received WAL by streaming, has applied all of that, was given its last transaction so long ago; how many WAL
    receivers stream, and of how many the role does not see what they do."""

    row: tuple[bool, bool, float | None, int, int]

    def execute(self, query: str) -> "Standby":
        assert "pg_is_in_recovery" in query
        return self

    def fetchone(self) -> tuple[Any, ...]:
        return self.row


@pytest.mark.parametrize(
    ("said", "lag_s"),
    [
        pytest.param((True, True, 3_600.0, 1, 0), 0.0, id="its primary is idle"),
        pytest.param((True, False, 7.5, 1, 0), 7.5, id="it applies"),
        pytest.param((True, False, None, 1, 0), INFINITE, id="it streams and has applied nothing yet"),
        pytest.param((True, True, 5.0, 0, 0), INFINITE, id="it has lost its primary"),
        pytest.param((False, False, 90.0, 0, 0), 90.0, id="it is fed by an archive alone"),
        pytest.param((False, False, None, 0, 0), INFINITE, id="of its archive nothing came yet"),
    ],
)
def test_a_standby_is_at_no_distance_only_while_it_streams_and_stands_still_once_it_streams_no_more(
    said: tuple[bool, bool, float | None, int, int], lag_s: float
) -> None:
    assert replica_lag_s(Standby(said), "reader") == lag_s  # type: ignore[arg-type]


def test_a_receiver_that_the_role_does_not_see_is_not_taken_for_one_that_streams() -> None:
    with pytest.raises(ConfigError, match="does not see what 1 WAL receivers of the source do"):
        replica_lag_s(Standby((True, True, 1.0, 0, 1)), "reader")  # type: ignore[arg-type]
