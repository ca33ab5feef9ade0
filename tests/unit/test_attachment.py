"""What is taken of a file that a person attaches, and how it is handed out."""

import hashlib

import pytest

from seamline.domain.attachment import BYTES_MAX, NAME_MAX, attached_document, checked, disposition, name_of
from seamline.domain.audit import sha256_of
from seamline.domain.errors import Refused

NAMES = {
    "letter.pdf": "letter.pdf",
    "../../etc/passwd": "passwd",
    "C:\\Users\\ann\\letter.pdf": "letter.pdf",
    "two\r\nlines\t.pdf": "two lines .pdf",
    "Set-Cookie: a=b\r\n.txt": "Set-Cookie: a=b .txt",
    'a"; filename="b.html': 'a"; filename="b.html',
    "invoice\u202efdp.exe": "invoicefdp.exe",
    "zero\u200bwidth\ufeff.pdf": "zerowidth.pdf",
    "a\0b.pdf": "a b.pdf",
    "e\u0301.pdf": "é.pdf",
    "对账单.xlsx": "对账单.xlsx",
    "<script>alert(1)<": "<script>alert(1)<",
    ".hidden": "hidden",
    " .. ": "",
    "": "",
    "a/": "",
    "\ud800": "",
}


@pytest.mark.parametrize("given", NAMES, ids=ascii)
def test_a_name_is_one_line_of_what_can_be_seen_and_no_path(given: str) -> None:
    assert name_of(given) == NAMES[given]
    assert name_of(name_of(given)) == NAMES[given], "a name that was kept is taken as it is"


def test_a_long_name_is_cut_and_keeps_its_ending() -> None:
    assert name_of(f"{'x' * 500}.pdf") == f"{'x' * (NAME_MAX - 4)}.pdf"
    assert len(name_of(f"x.{'y' * 500}")) == NAME_MAX


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("", b"", "choose a file"),
        ("a.pdf", b"", "a.pdf is empty"),
        (" .. ", b"x", "no name"),
        ("a.pdf", bytes(BYTES_MAX + 1), "at most 10,485,760 bytes"),
    ],
)
def test_a_file_without_name_or_bytes_or_with_too_many_is_refused(name: str, content: bytes, said: str) -> None:
    with pytest.raises(Refused, match=said):
        checked(name, content)
    assert checked("a.pdf", bytes(BYTES_MAX)).name == "a.pdf"


@pytest.mark.parametrize("name", [one for one in NAMES.values() if one])
def test_a_name_breaks_out_of_no_header(name: str) -> None:
    made = disposition(name)
    assert made.isascii() and made.isprintable() and made.count('"') == 2
    assert made.startswith('attachment; filename="')
    quoted, _, coded = made.partition("; filename*=UTF-8''")
    assert '"' not in coded and " " not in coded and ";" not in coded
    assert set(quoted.removeprefix('attachment; filename="').removesuffix('"')) & set('<>:;/\\"') == set()


def test_the_entry_has_the_sha256_of_the_bytes_and_the_break() -> None:
    content = b"\0\xff<script>"
    said = attached_document(checked("a/b.html", content), 3, "0123456789abcdef")
    assert said == {
        "breaks": 1,
        "breaks_hash": sha256_of('["0123456789abcdef"]'),
        "break_ids": ["0123456789abcdef"],
        "bytes": 10,
        "file": "b.html",
        "sha256": hashlib.sha256(content).hexdigest(),
        "version": 3,
    }
    of_take = attached_document(checked("a/b.html", content), 3)
    assert of_take == {name: said[name] for name in ("bytes", "file", "sha256", "version")}
