"""An S3 of a session of tests: moto in this process, or the server that SEAMLINE_TEST_S3 names. For a server that is
killed, versitygw where this machine has it: moto holds everything in its memory.

That is a connection of kind aws as a URI, `aws://KEY:SECRET@?endpoint_url=http%3A%2F%2F127.0.0.1%3A9000`, whose login
may make buckets: MinIO, versitygw, or any other. A bucket is made for each session and removed behind it.
"""

import json
import logging
import secrets
import threading
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit
from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from pyarrow import fs
from werkzeug.serving import make_server
from werkzeug.wrappers import Response

from seamline import settings
from seamline.adapters.connections import Connection, parsed
from tests.daemon import Daemon, free_port, is_open

NAMED = "SEAMLINE_TEST_S3"
_LOGIN, _REGION = "lake", "eu-west-1"


@dataclass(frozen=True)
class ObjectStore:
    """`connection`: as an environment variable says it."""

    connection: str
    bucket: str
    filesystem: fs.S3FileSystem

    def keys(self, below: str = "") -> set[str]:
        found = self.filesystem.get_file_info(fs.FileSelector(f"{self.bucket}/{below}".rstrip("/"), recursive=True))
        return {one.path for one in found if one.type == fs.FileType.File}


@contextmanager
def running() -> Iterator[ObjectStore]:
    with ExitStack() as opened:
        connection = settings.process_environment().get(NAMED) or opened.enter_context(_moto())
        filesystem = _filesystem(parsed(connection))
        bucket = f"seamline-test-{secrets.token_hex(4)}"
        filesystem.create_dir(bucket)
        try:
            yield ObjectStore(connection, bucket, filesystem)
        finally:
            # versitygw refuses folders that are deleted in one call with what lies in them, and deletes that.
            with suppress(OSError):
                filesystem.delete_dir_contents(bucket)
            filesystem.delete_dir(bucket)


@contextmanager
def killable(versitygw: str, folder: Path) -> Iterator[tuple[ObjectStore, Daemon]]:
    """versitygw, by its program, over a folder that has extended attributes."""
    port, secret = free_port(), secrets.token_hex(8)
    (folder / "buckets").mkdir()
    asked = ["--port", f"127.0.0.1:{port}", "--region", _REGION, "--quiet", "posix", str(folder / "buckets")]
    login = {"ROOT_ACCESS_KEY_ID": _LOGIN, "ROOT_SECRET_ACCESS_KEY": secret}
    environment = {**settings.process_environment(), **login}
    daemon = Daemon(lambda: [versitygw, *asked], folder / "log", answers=lambda: is_open(port), env=environment)
    try:
        daemon.start()
        connection = _said(port, secret)
        filesystem = _filesystem(parsed(connection))
        filesystem.create_dir("killed")
        yield ObjectStore(connection, "killed", filesystem), daemon
    finally:
        daemon.kill()


def _said(port: int, secret: str) -> str:
    extra = {"endpoint_url": f"http://127.0.0.1:{port}", "region_name": _REGION}
    return json.dumps({"conn_type": "aws", "login": _LOGIN, "password": secret, "extra": extra})


@contextmanager
def _moto() -> Iterator[str]:
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = make_server("127.0.0.1", 0, _Named(DomainDispatcherApplication(create_backend_app)), threaded=True)
    serving = threading.Thread(target=server.serve_forever, daemon=True)
    serving.start()
    try:
        yield _said(server.server_port, secrets.token_hex(8))
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class _Named:
    """moto 5.2.1 calls one answer otherwise than S3 does; Arrow takes it for an error."""

    def __init__(self, served: WSGIApplication) -> None:
        self._served = served

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if environ["REQUEST_METHOD"] != "POST" or "uploadId=" not in environ["QUERY_STRING"]:
            return self._served(environ, start_response)
        answer = Response.from_app(self._served, environ)
        text = answer.get_data(as_text=True)
        answer.set_data(text.replace("CompleteMultipartUploadResponse", "CompleteMultipartUploadResult"))
        return answer(environ, start_response)


def _filesystem(connection: Connection) -> fs.S3FileSystem:
    """Of its own, and not ours: it looks at what we have written."""
    endpoint = urlsplit(str(connection.extra.get("endpoint_url", "")))
    return fs.S3FileSystem(
        access_key=connection.login,
        secret_key=connection.password,
        region=connection.extra.get("region_name", "us-east-1"),
        scheme=endpoint.scheme or "https",
        endpoint_override=endpoint.netloc or None,
        allow_bucket_creation=True,
        allow_bucket_deletion=True,
    )
