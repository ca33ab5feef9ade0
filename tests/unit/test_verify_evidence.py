"""The verifier of evidence, by itself: what a folder holds that is no evidence."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from seamline.domain.audit import NOTHING_BEFORE, canonical_json, link_hash, sha256_of
from seamline.platform import verify_evidence

DEEP = "[" * 200_000 + "]" * 200_000


def verified(folder: Path, document: Any, *, chain: str = "") -> tuple[int, str]:
    """Of a chain of one entry with this document, whose hashes are right."""
    content = {
        "at": "", "business_date": "2026-03-01", "destination": "d", "document": document, "kind": "approved",
        "origin": "run", "run_id": "r", "scope": "cut", "sync": "s", "who": "ann",
    }  # fmt: skip
    hashed = link_hash(content_hash=sha256_of(canonical_json(content)), number=1, previous=NOTHING_BEFORE)
    link = {"content": content, "hash": hashed, "number": 1}
    head = {"sync": "s", "business_date": "2026-03-01", "first": 1, "previous": NOTHING_BEFORE, "number": 1}
    shutil.copy(verify_evidence.__file__, folder / "verify.py")
    (folder / "chain.jsonl").write_text(chain or json.dumps(link), encoding="utf-8")
    (folder / "head.json").write_text(json.dumps({**head, "hash": hashed, "anchors": []}), encoding="utf-8")
    command = [sys.executable, "-I", str(folder / "verify.py")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout + done.stderr


def test_an_entry_that_is_right_is_right(tmp_path: Path) -> None:
    code, said = verified(tmp_path, {})
    assert (code, said.splitlines()[-1]) == (0, "nothing is wrong")


@pytest.mark.parametrize("document", [[], "text", None, {"verdict_hashes": ["a"]}])
def test_what_is_no_document_cannot_be_read_and_is_no_traceback(tmp_path: Path, document: Any) -> None:
    code, said = verified(tmp_path, document)
    assert code == 2 and said.startswith("the evidence cannot be read: AttributeError")


def test_what_is_nested_without_end_cannot_be_read(tmp_path: Path) -> None:
    code, said = verified(tmp_path, {}, chain=DEEP)
    assert code == 2 and said.startswith("the evidence cannot be read: RecursionError")
