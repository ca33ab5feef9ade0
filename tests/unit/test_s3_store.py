"""What S3 answers, as its store takes it: answers that no server of the tests gives when it is asked to."""

import hashlib
import io
import random
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import boto3
import pytest
from botocore.exceptions import ConnectionClosedError
from botocore.stub import Stubber

from seamline.adapters.connections import parsed
from seamline.domain.errors import ConfigError, TransientError
from seamline.files.stores.s3 import S3Store, opened
from seamline.sinks.files.two_phase import Hashing
from tests import s3_server


@pytest.fixture
def stubbed() -> Iterator[tuple[S3Store, Stubber]]:
    client = boto3.client("s3", aws_access_key_id="a", aws_secret_access_key="b", region_name="eu-west-1")
    with Stubber(client) as answers:
        yield S3Store(client, "bucket", "out"), answers


def test_a_folder_of_which_an_object_may_not_be_removed_is_not_taken_for_gone(stubbed: tuple[S3Store, Stubber]) -> None:
    store, answers = stubbed
    answers.add_response("list_objects_v2", {"Contents": [{"Key": "out/x/1"}, {"Key": "out/x/2"}]})
    refused = {"Key": "out/x/2", "Code": "AccessDenied", "Message": "it is locked"}
    answers.add_response("delete_objects", {"Errors": [refused]})
    with pytest.raises(TransientError, match="out/x/2 operation: it is locked"):
        store.remove_folder("x")


def test_a_role_that_files_do_not_take_is_refused_and_not_passed_over() -> None:
    with pytest.raises(ConfigError, match="takes a role, and files on S3 take none"):
        opened("bucket", "out", parsed("aws://?role_arn=arn:aws:iam::1:role/files"))


class CutOff:
    """A network that breaks during the first sending of these parts."""

    def __init__(self, store: S3Store, parts: set[int]) -> None:
        self._left = set(parts)
        self.sent = Counter[int]()
        store.client.meta.events.register("before-send.s3.UploadPart", self)

    def __call__(self, request: Any, **_: Any) -> None:
        part = int(request.url.partition("partNumber=")[2].partition("&")[0])
        self.sent[part] += 1
        if part in self._left:
            self._left.remove(part)
            raise ConnectionClosedError(endpoint_url=request.url)


def test_of_an_upload_whose_connection_breaks_the_broken_part_alone_is_sent_again() -> None:
    content = random.Random(7).randbytes(20 << 20)  # noqa: S311
    with s3_server.running() as server, closing(opened(server.bucket, "out", parsed(server.connection))) as store:
        network = CutOff(store, {2})
        hashed = Hashing(io.BytesIO(content))
        store.write("large", hashed)
        assert network.sent == {1: 1, 2: 2, 3: 1}
        assert (hashed.size, hashed.sha256) == (len(content), hashlib.sha256(content).hexdigest())
        found = io.BytesIO()
        store.read("large", found)
        assert found.getvalue() == content
