"""Whatever stands in a declaration, the answer is a spec or faults with lines that exist, never a traceback."""

import re
import tempfile
from pathlib import Path
from unittest import mock

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from seamline.spec.document import read_document
from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.unit.declared import FILES, KNOWN, SYNC, write_declarations

SCRAPS = (
    "", "~", "[]", "{}", "- ", ": ", "? ", "&a ", "*a", "<<: ", "!tag ", "%", "|", "'", '"', "\t", "\n", "é", "💶",
    "\u0085",
    "7", "-1", ".inf", ".nan", "1e400", "7:00", "2026-01-01", "no", "99999999999999999999d", "0x1F", "[[",
    "kind: [x]\n",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """One of the right files with a few chunks cut out and scraps put in."""
    name = draw(st.sampled_from(sorted(FILES)))
    text = FILES[name]
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 20)))
        text = text[:start] + draw(st.sampled_from(SCRAPS)) + text[end:]
    return name, text


@given(damaged())
@example(("sources/core_bank.yaml", FILES["sources/core_bank.yaml"].replace("mariadb", "[mariadb]")))
@example(("sources/core_bank.yaml", FILES["sources/core_bank.yaml"] + "log: {max_gb: .inf}\n"))
@example(("syncs/settlement.yaml", SYNC.replace("nightly:\n", "nightly:\n  as_of_max: 99999999999999999999d\n")))
@example(("syncs/settlement.yaml", "[" * 3000))
@example(("syncs/settlement.yaml", "- " * 100_000))
@example(("syncs/settlement.yaml", SYNC.replace("account\n", "{? [a, b] : c}\n")))
@example(("syncs/settlement.yaml", SYNC.replace("settlement\n", "!!python/object:os.system x\n", 1)))
def test_a_damaged_file_is_reported_with_a_line_that_it_has(found: tuple[str, str]) -> None:
    name, text = found
    with tempfile.TemporaryDirectory() as folder:
        try:
            load_declarations(write_declarations(Path(folder), {name: text}))
        except DeclarationsInvalid as error:
            for fault in error.faults:
                lines = fault.file.read_text(encoding="utf-8").count("\n") + 1
                # YAML counts more characters as the end of a line than a text editor does.
                assert 1 <= fault.line <= lines + text.count("\u0085")
                assert fault.cause


@given(damaged())
@example(
    ("syncs/settlement.yaml", SYNC.replace("- account", "- 'account'").replace("sum: amount", '"sum": "am\\x6funt"'))
)
@example(("syncs/settlement.yaml", SYNC + "# a tab:\t\nconnecti\t: x\n"))
def test_libyaml_reads_a_file_as_pyyaml_does(found: tuple[str, str]) -> None:
    name, text = found
    with tempfile.TemporaryDirectory() as folder:
        file = write_declarations(Path(folder), {name: text}) / name
        quick = read_document(file)
        with mock.patch.object(yaml, "__with_libyaml__", False):
            slow = read_document(file)
    if slow.data is None:
        # PyYAML refuses a `?` inside a word, as only older YAML does.
        assert quick.faults == slow.faults or "?" in text
        return
    assert (quick.data, quick.plain, quick.faults) == (slow.data, slow.plain, slow.faults)
    assert quick.lines == slow.lines or "?" in text, "a key that is not there lies on the line of its mark or behind it"


def test_a_file_that_is_not_text_is_one_fault(tmp_path: Path) -> None:
    (write_declarations(tmp_path) / "syncs" / "settlement.yaml").write_bytes(b"\xff\xfe\x00sync")
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(tmp_path)
    (fault,) = caught.value.faults
    assert "cannot be read" in fault.cause


VALUES = ("7", "[x]", "{x: 1}", "", "mysql://u:hunter2@h/b", "[mysql://u:hunter2@h/b]", "10:30", "!!int", "*a")
SUFFIXES = ("_x", "_url", "_password", "-")


def changed_once() -> list[tuple[str, str]]:
    """Each right file with one value replaced, or one key written otherwise above an address with a password."""
    found = []
    for name, text in FILES.items():
        for value in re.finditer(r"(?<=: )[^\[{,}\]\n]+", text):
            found += [(name, text[: value.start()] + other + text[value.end() :]) for other in VALUES]
        for key in re.finditer(r"(\w)(\w+)(?=:)", text):
            spelt = [key[0] + end for end in SUFFIXES]
            spelt += [key[0][:-1], key[2][:1] + key[1] + key[2][1:], key[0].upper()]
            rest = re.sub(r"^: [^\[{,}\]\n]+", ": mysql://u:hunter2@h/b", text[key.end() :])
            found += [(name, text[: key.start()] + other + rest) for other in spelt]
    return found


def test_one_wrong_value_or_key_is_faults_of_one_line_and_repeats_no_password(tmp_path: Path) -> None:
    refused = 0
    for name, text in changed_once():
        try:
            load_declarations(write_declarations(tmp_path, {name: text}), connections=KNOWN)
        except DeclarationsInvalid as error:
            refused += 1
            assert error.faults
            assert "hunter2" not in str(error), text
            assert not any("\n" in str(fault) for fault in error.faults), text
    assert refused > 400
