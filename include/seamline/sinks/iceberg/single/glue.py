"""AWS Glue as the catalogue of Iceberg tables, by the parameters that all of Iceberg's clients know."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError
from pyiceberg.table.metadata import TableMetadata

from seamline.adapters.connections import Connection
from seamline.domain.errors import TransientError
from seamline.sinks.iceberg.single.catalogue import Entry, columns_of, entry_of, parameters_of

_ABSENT, _TAKEN = "EntityNotFoundException", "AlreadyExistsException"
# Glue answers so where the version that it was given is not the newest.
_MOVED = "ConcurrentModificationException"


class GlueCatalogue:
    """`SingleCatalogue`. Glue compares by `VersionId`. The client is kept behind `close`: to make one costs more than a
    look at all tables, and it holds nothing but idle connections."""

    def __init__(self, client: Any, database: str) -> None:
        self._client = client
        self._database = database

    def close(self) -> None:
        return

    def entries(self) -> Mapping[str, Entry]:
        with _translated(f"list the tables of database {self._database}"):
            try:
                pages = list(self._client.get_paginator("get_tables").paginate(DatabaseName=self._database))
            except ClientError as exc:
                if _code(exc) == _ABSENT:
                    return {}
                raise
        return {one["Name"]: entry_of(one.get("Parameters", {})) for page in pages for one in page["TableList"]}

    def make_namespace(self, folder: str) -> None:
        self._taken(
            f"make database {self._database}",
            self._client.create_database,
            _TAKEN,
            DatabaseInput={"Name": self._database, "LocationUri": folder},
        )

    def add(self, name: str, pointer: str, metadata: TableMetadata) -> bool:
        said = _input(name, parameters_of(pointer), metadata)
        return self._taken(f"add table {name}", self._client.create_table, _TAKEN, **self._of(), TableInput=said)

    def move(self, name: str, old: str, new: str, metadata: TableMetadata) -> bool:
        with _translated(f"look for table {self._database}.{name}"):
            try:
                found = self._client.get_table(**self._of(), Name=name)["Table"]
            except ClientError as exc:
                if _code(exc) == _ABSENT:
                    return False
                raise
        known = found.get("Parameters", {})
        if entry_of(known).pointer != old:
            return False
        said = _input(name, parameters_of(new, old, known), metadata)
        # Each move would else leave an old version of the entry there, of which Glue keeps so many.
        how = {"TableInput": said, "SkipArchive": True, "VersionId": str(found["VersionId"])}
        return self._taken(f"move table {name}", self._client.update_table, _MOVED, **self._of(), **how)

    def drop(self, name: str) -> None:
        self._taken(f"drop table {name}", self._client.delete_table, _ABSENT, **self._of(), Name=name)

    def _of(self) -> dict[str, str]:
        return {"DatabaseName": self._database}

    @staticmethod
    def _taken(doing: str, call: Any, refusal: str, **said: Any) -> bool:
        """False where Glue refuses for this reason."""
        with _translated(doing):
            try:
                call(**said)
            except ClientError as exc:
                if _code(exc) == refusal:
                    return False
                raise
        return True


def open_glue(connection: Connection | None, database: str) -> GlueCatalogue:
    """What a connection does not say is found as every client of AWS finds it."""
    extra = connection.extra if connection else {}
    session = boto3.Session(
        aws_access_key_id=(connection.login or None) if connection else None,
        aws_secret_access_key=(connection.password or None) if connection else None,
        aws_session_token=extra.get("aws_session_token"),
        region_name=extra.get("region_name"),
    )
    patience = Config(connect_timeout=10, read_timeout=60, retries={"mode": "standard"})
    with _translated("reach Glue"):
        client = session.client("glue", endpoint_url=extra.get("endpoint_url"), config=patience)
    return GlueCatalogue(client, database)


def _input(name: str, parameters: Mapping[str, str], metadata: TableMetadata) -> dict[str, Any]:
    return {
        "Name": name,
        "TableType": "EXTERNAL_TABLE",
        "Parameters": dict(parameters),
        "StorageDescriptor": {
            "Columns": [{"Name": column, "Type": of} for column, of in columns_of(metadata)],
            "Location": metadata.location,
        },
    }


@contextmanager
def _translated(doing: str) -> Iterator[None]:
    try:
        yield
    except (ClientError, BotoCoreError) as exc:
        raise TransientError(
            f"Glue cannot {doing}: {exc}",
            hint="it is tried again; if it stays: may this login do so, and is the region right?",
        ) from exc


def _code(error: ClientError) -> str:
    return str(error.response.get("Error", {}).get("Code", ""))
