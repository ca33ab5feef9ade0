"""What S3 answers, as its store takes it: answers that no server of the tests gives when it is asked to."""

from collections.abc import Iterator

import boto3
import pytest
from botocore.stub import Stubber

from seamline.adapters.connections import parsed
from seamline.domain.errors import ConfigError, TransientError
from seamline.files.stores.s3 import S3Store, opened


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
