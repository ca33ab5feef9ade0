"""A warehouse in a store: what leads there, and paths that stay within it."""

import json
import time
from pathlib import Path

import fsspec
import pytest
from pyarrow import fs

from seamline import settings
from seamline.adapters.connections import parsed, resolve
from seamline.domain.errors import ConfigError, Refused
from seamline.sinks.iceberg.io import LOCAL_IO, WarehouseIO, io_of
from seamline.sinks.lake.files import NewFiles, content, files_in, local, root_of, url_of
from seamline.sinks.lake.stores import StoredPath, opened, stored_path

ROOT = StoredPath("s3://", "lake/tables", fs.S3FileSystem(access_key="a", secret_key="b", region="eu-west-1"))


def in_folder(folder: Path) -> StoredPath:
    return StoredPath("s3://", "lake", fs.SubTreeFileSystem(str(folder), fs.LocalFileSystem()))


def test_a_connection_of_aws_needs_no_server_and_says_the_same_as_a_uri_and_as_json(tmp_path: Path) -> None:
    extra = {"region_name": "eu-west-1", "endpoint_url": "http://127.0.0.1:9000"}
    entry = {"conn_type": "aws", "login": "key", "password": "s/cret", "extra": extra}
    (tmp_path / "connections.json").write_text(json.dumps({"objects": entry}))
    found = resolve("objects", within=settings.load({"SEAMLINE_DATA": str(tmp_path)}))
    uri = "aws://key:s%2Fcret@?region_name=eu-west-1&endpoint_url=http%3A%2F%2F127.0.0.1%3A9000"
    for one in (found, parsed(uri)):
        assert (one.kind, one.host, one.login, one.password) == ("aws", "", "key", "s/cret")
        assert dict(one.extra) == extra


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("region=eu-west-1", "`region` is no setting of a connection of kind aws"),
        ("endpoint_url=minio:9000", "endpoint_url is 'minio:9000'"),
        ("role_arn=arn", "a login and a role_arn"),
        ("verify=False", "verify is False, which cannot be read"),
    ],
)
def test_what_no_client_of_s3_could_honour_is_refused(said: str, fault: str) -> None:
    with pytest.raises(ConfigError, match=fault):
        parsed(f"aws://key:secret@?{said}")


def test_a_path_is_named_as_a_table_names_it_and_holds_no_secret_in_its_text() -> None:
    path = ROOT / "settlement" / "account-1" / "data"
    assert str(path) == url_of(path) == "s3://lake/tables/settlement/account-1/data"
    assert path.name == "data"
    assert path.parent.parent == ROOT / "settlement"
    assert stored_path(ROOT, "s3a://lake/tables/settlement/account-1/data") == path
    assert path.relative_to(ROOT) == "settlement/account-1/data"
    assert path.is_relative_to(ROOT)
    assert not (ROOT.parent / "tables-of-others").is_relative_to(ROOT)
    assert "filesystem" not in repr(path)


def test_files_of_a_store_come_are_listed_and_go(tmp_path: Path) -> None:
    root = in_folder(tmp_path)
    (tmp_path / "lake" / "t" / "data").mkdir(parents=True)
    files = NewFiles(root / "t", "mark")
    first, second = files.data(".parquet"), files.data(".parquet")
    first.write_text("one")
    second.write_text("three")
    files.synced()
    assert {(path, found.st_size) for path, found in files_in(root / "t" / "data")} == {(first, 3), (second, 5)}
    assert content(root) == [root / "t"]
    assert second.read_text() == "three"
    files.drop([first])
    first.remove()
    assert content(root / "t" / "data") == [second]
    with pytest.raises(FileNotFoundError):
        first.stat()
    (root / "t").remove_folder()
    (root / "t").remove_folder()
    assert content(root) == []


def test_a_file_whose_age_is_unknown_is_young() -> None:
    memory = fsspec.filesystem("memory")
    root = StoredPath("memory://", "ages", fs.PyFileSystem(fs.FSSpecHandler(memory)))
    (root / "data").write_text("x")
    ((_, found),) = files_in(root)
    assert found.st_mtime > time.time() + 1e9
    root.remove_folder()


def test_a_file_outside_of_the_warehouse_is_refused_by_name() -> None:
    stored, folder = WarehouseIO(ROOT), LOCAL_IO
    for io, url in ((stored, "file:///lake/x"), (stored, "hdfs://n:1/x"), (folder, "s3://lake/x")):
        with pytest.raises(Refused, match="lies in"):
            io.path_of(url)
        with pytest.raises(Refused, match="lies in"):
            io.new_input(url)
    with pytest.raises(Refused, match="tables of this format lie in a folder"):
        local(ROOT)


def test_hdfs_is_reached_by_a_connection_of_its_own_kind_alone() -> None:
    with pytest.raises(ConfigError, match="needs `warehouse_connection`, a connection of kind webhdfs"):
        opened("hdfs://namenode:8020/lake", "")


def test_a_warehouse_is_a_folder_or_a_store_by_what_it_is_called(tmp_path: Path) -> None:
    assert root_of(str(tmp_path)) == tmp_path
    assert str(root_of("s3://lake/tables")) == "s3://lake/tables"
    assert io_of(f"file://{tmp_path}/m.metadata.json") is LOCAL_IO
    with pytest.raises(Refused, match="no store is known for gs://lake"):
        opened("gs://lake", "")


class _OverAFileSystem:
    """As versitygw answers: a folder is refused in the call that deletes what lies in it, and the rest is deleted."""

    def __init__(self, real: fs.FileSystem) -> None:
        self._real = real
        self.get_file_info, self.delete_dir = real.get_file_info, real.delete_dir

    def delete_dir_contents(self, path: str, *, missing_dir_ok: bool) -> None:
        files = [one for one in content_of(self._real, path) if one.type == fs.FileType.File]
        for one in files:
            self._real.delete_file(one.path)
        if files:
            raise OSError(f"key '{path}/': Directory object not empty.")
        self._real.delete_dir_contents(path, missing_dir_ok=missing_dir_ok)


def content_of(filesystem: fs.FileSystem, path: str) -> list[fs.FileInfo]:
    found: list[fs.FileInfo] = filesystem.get_file_info(fs.FileSelector(path, recursive=True, allow_not_found=True))
    return found


def test_a_folder_goes_where_the_store_refuses_it_in_one_call_with_its_files(tmp_path: Path) -> None:
    (tmp_path / "table/data").mkdir(parents=True)
    (tmp_path / "table/data/1.parquet").write_bytes(b"x")
    StoredPath("s3://", str(tmp_path / "table"), _OverAFileSystem(fs.LocalFileSystem())).remove_folder()
    assert list(tmp_path.iterdir()) == []
