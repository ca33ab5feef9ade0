"""What a folder must be to be a warehouse."""

import errno
import os
from pathlib import Path

import pytest

from seamline.sinks.lake.warehouse import of_links, of_warehouse


def no_link(path: Path, link: Path) -> None:
    raise OSError(errno.EPERM, "Operation not permitted", str(path), None, str(link))


def test_a_file_system_without_hard_links_is_refused_with_the_reason_and_nothing_is_left_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list(of_links(str(tmp_path))) == []
    monkeypatch.setattr(os, "link", no_link)
    ((said, cure),) = of_links(str(tmp_path))
    assert said == f"no hard link can be made in {tmp_path}: Operation not permitted"
    assert "put it on a file system that has them" in cure
    assert list(tmp_path.iterdir()) == []


def test_a_missing_folder_is_reported_once(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert len([*of_warehouse(missing), *of_links(missing)]) == 1
