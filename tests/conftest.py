"""What every layer shares. Fixtures of one layer live beside its tests."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

# Machines with two busy cores: a slow example is not a wrong one, so no deadline per example.
hypothesis_settings.register_profile("seamline", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("seamline")


@pytest.fixture(scope="session")
def checkout() -> Path:
    """The root of the checkout under test."""
    return Path(__file__).resolve().parents[1]
