"""AWS Glue for a session of tests: moto in this process, which is made to compare versions as Glue does.

moto 5.2.1 takes any `VersionId`, so what it shows is that the calls are those of Glue's interface.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from seamline.adapters.connections import Connection


@contextmanager
def running() -> Iterator[Connection]:
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), threaded=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    extra = {"endpoint_url": f"http://127.0.0.1:{server.server_port}", "region_name": "eu-west-1"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GlueResponse, "update_table", _comparing(GlueResponse.update_table))
        try:
            yield Connection("glue", "aws", "", 0, "lake", "secret of a test", extra=extra)
        finally:
            server.shutdown()
            serving.join()
            server.server_close()


def _comparing(update: Any) -> Any:
    def update_table(self: GlueResponse) -> Any:
        said = self.parameters
        found = self.glue_backend.get_table(said["DatabaseName"], said["TableInput"]["Name"]).as_dict()
        if said.get("VersionId") not in (None, found["VersionId"]):
            raise GlueClientError("ConcurrentModificationException", "Update table failed due to concurrent update")
        return update(self)

    return update_table
