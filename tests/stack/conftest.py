"""What the tests of the local stack share."""

from collections.abc import Iterator

import pytest

from seamline import settings
from seamline.stack.port_bases import held_port_base
from tests.stack.own_stack import OwnStack


@pytest.fixture(scope="module")
def own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OwnStack]:
    folder = tmp_path_factory.mktemp("stack")
    # pytest's folders are private, and root's servers run as another account: this is the case of a closed folder.
    with held_port_base(settings.load().home) as base:
        known = settings.load(
            {
                **settings.process_environment(),
                "SEAMLINE_DATA": str(folder / "data"),
                "SEAMLINE_CONNECTIONS": str(folder / "data" / "connections.json"),
                "SEAMLINE_PORT_BASE": str(base),
            }
        )
        one = OwnStack(known)
        yield one
        one.run("down")
