"""S3: an object is there whole or not at all, and a conditional put is refused where one is there.

Names are given by copies on the server. A copy may come over what is there: nobody but who shows this delivery writes
under these names, and the copy is of the same bytes.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from datetime import datetime
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

from seamline.adapters.connections import Connection
from seamline.domain.errors import ConfigError, SeamlineError, TransientError
from seamline.domain.server_found import ServerFound
from seamline.files.stores.store import Sendable, Writable

_PIECE = 2**20
_MISSING = ("404", "NoSuchKey", "NotFound")
# The second: another conditional put of that name is under way.
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")
_AT_ONCE = 1_000
_NOT_LISTED = ("AccessDenied", "NotImplemented")
# What a server says to a login that it knows.
_KNOWN_TO_IT = ("AccessDenied", "AllAccessDisabled")
_ITS_OWN_TROUBLE = 500


class S3Store:
    """`store.Store` below a prefix of a bucket."""

    def __init__(self, client: Any, bucket: str, prefix: str) -> None:
        self.client = client
        self.bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""

    def names(self, folder: str) -> Sequence[str]:
        below = self._key(f"{folder}/" if folder else "")
        with self._translated(f"list {folder or 'the folder'}"):
            pages = self._pages(below, Delimiter="/")
            keys = [one["Key"] for page in pages for one in page.get("Contents", ())]
            folders = [one["Prefix"] for page in pages for one in page.get("CommonPrefixes", ())]
        return sorted({key.removeprefix(below).rstrip("/") for key in [*keys, *folders] if key != below})

    def size(self, path: str) -> int | None:
        with self._translated(f"look for {path}"):
            try:
                return int(self.client.head_object(**self._at(path))["ContentLength"])
            except ClientError as exc:
                if _code(exc) in _MISSING:
                    return None
                raise

    def write(self, path: str, content: Sendable) -> None:
        with self._translated(f"write {path}"):
            self.client.upload_fileobj(content, self.bucket, self._key(path))

    def read(self, path: str, into: Writable) -> None:
        with self._translated(f"read {path}"):
            for piece in self.client.get_object(**self._at(path))["Body"].iter_chunks(_PIECE):
                into.write(piece)

    def put_if_absent(self, path: str, content: bytes) -> bool:
        with self._translated(f"write {path}"):
            try:
                self.client.put_object(**self._at(path), Body=content, IfNoneMatch="*")
            except ClientError as exc:
                if _code(exc) in _TAKEN:
                    return False
                raise
            return True

    def read_put(self, path: str) -> bytes:
        with self._translated(f"read {path}"):
            return bytes(self.client.get_object(**self._at(path))["Body"].read())

    def place(self, source: str, target: str) -> bool:
        if self.size(target) is not None:
            return False
        with self._translated(f"place {target}"):
            self.client.copy(self._at(source), self.bucket, self._key(target))
        return True

    def remove(self, path: str) -> None:
        with self._translated(f"remove {path}"):
            self.client.delete_object(**self._at(path))

    def remove_folder(self, folder: str) -> None:
        with self._translated(f"remove {folder}"):
            keys = [one["Key"] for page in self._pages(self._key(f"{folder}/")) for one in page.get("Contents", ())]
            for first in range(0, len(keys), _AT_ONCE):
                gone = [{"Key": key} for key in keys[first : first + _AT_ONCE]]
                asked = {"Objects": gone, "Quiet": True}
                _require_gone(self.client.delete_objects(Bucket=self.bucket, Delete=asked))

    def drop_unfinished(self, folder: str, before: datetime) -> int:
        """Parts of a large file whose upload or copy was killed: nobody sees them, and they are paid for."""
        with self._translated(f"look for unfinished uploads below {folder}"):
            asked = self.client.get_paginator("list_multipart_uploads")
            try:
                pages = list(asked.paginate(Bucket=self.bucket, Prefix=self._key(f"{folder}/")))
            except ClientError as exc:
                if _code(exc) in _NOT_LISTED:
                    return 0
                raise
            old = [one for page in pages for one in page.get("Uploads", ()) if one["Initiated"] < before]
            for one in old:
                self.client.abort_multipart_upload(Bucket=self.bucket, Key=one["Key"], UploadId=one["UploadId"])
            return len(old)

    def close(self) -> None:
        self.client.close()

    def _key(self, path: str) -> str:
        return f"{self._prefix}{path}"

    def _at(self, path: str) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self._key(path)}

    def _pages(self, below: str, **how: str) -> list[Any]:
        return list(self.client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=below, **how))

    @contextmanager
    def _translated(self, doing: str) -> Iterator[None]:
        try:
            yield
        except (ClientError, BotoCoreError) as exc:
            if isinstance(exc, ClientError) and _code(exc) in _MISSING:
                raise FileNotFoundError(doing) from exc
            raise TransientError(
                f"cannot {doing} in s3://{self.bucket}/{self._prefix}: {exc}",
                hint="it is tried again; if it stays: is the bucket there, may this login write there",
            ) from exc


def opened(bucket: str, prefix: str, connection: Connection | None) -> S3Store:
    """What a connection does not say is found as every client of AWS finds it. ConfigError: it takes a role."""
    return S3Store(_client(connection), bucket, prefix)


def examined(connection: Connection) -> ServerFound:
    """ConfigError: the server refuses the login. TransientError: it does not answer.

    Its buckets are asked for: every server answers that, and also knows a login that may not see them.
    """
    with closing(_client(connection)) as client:
        endpoint = str(client.meta.endpoint_url)
        where = f"S3 at {endpoint}"
        try:
            client.list_buckets()
        except ClientError as exc:
            if _code(exc) not in _KNOWN_TO_IT:
                raise _refusal(where, exc) from exc
        except NoCredentialsError as exc:
            raise ConfigError(
                f"connection `{connection.connection_id}` has no login, and this machine has none of its own",
                hint="write the access key as its login, and the secret as its password",
            ) from exc
        except BotoCoreError as exc:
            raise TransientError(
                f"{where} does not answer: {exc}", hint="check endpoint_url, and that it runs"
            ) from exc
    return ServerFound(where, "encrypted" if endpoint.startswith("https:") else "in the clear")


def _refusal(where: str, said: ClientError) -> SeamlineError:
    status = int(said.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
    if status >= _ITS_OWN_TROUBLE:
        return TransientError(f"{where} has trouble of its own: {said}", hint="try again later")
    return ConfigError(f"{where} refuses the login: {said}", hint="check login, password and endpoint_url")


def _client(connection: Connection | None) -> Any:
    extra = connection.extra if connection else {}
    if connection and extra.get("role_arn"):
        # It would be passed over, and the machine's own login be used.
        raise ConfigError(
            f"connection `{connection.connection_id}` takes a role, and files on S3 take none",
            hint="let the machines have that role, and leave `role_arn` out",
        )
    session = boto3.Session(
        aws_access_key_id=(connection.login or None) if connection else None,
        aws_secret_access_key=(connection.password or None) if connection else None,
        aws_session_token=extra.get("aws_session_token"),
        region_name=extra.get("region_name"),
    )
    # Listings with a bucket in the host's name need a wildcard in its DNS; other servers than AWS have none.
    style = {"addressing_style": "path"} if extra.get("endpoint_url") else {}
    settings = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard"}, s3=style)
    return session.client("s3", endpoint_url=extra.get("endpoint_url"), verify=extra.get("verify"), config=settings)


def _require_gone(answer: Mapping[str, Any]) -> None:
    """One answer is for all keys: it is no error of the call where some are refused."""
    for refused in answer.get("Errors", ()):
        raise ClientError({"Error": refused}, f"DeleteObjects of {refused.get('Key')}")


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
