"""Whatever stands in a declaration, the answer is a spec or faults with lines that exist, never a traceback."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seamline.spec.faults import DeclarationsInvalid
from seamline.spec.load import load_declarations
from tests.unit.declared import FILES, SYNC, write_declarations

SCRAPS = (
    "", "~", "[]", "{}", "- ", ": ", "? ", "&a ", "*a", "<<: ", "!tag ", "%", "|", "'", '"', "\t", "\n", "é", "💶",
    "\u0085",
    "7", "-1", ".inf", ".nan", "1e400", "7:00", "2026-01-01", "no", "99999999999999999999d", "0x1F", "[[",
    "kind: [x]\n",
)  # fmt: skip


@st.composite
def damaged(draw: st.DrawFn) -> tuple[str, str]:
    """One of the right files with a few pieces cut out and scraps put in."""
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
@example(("syncs/settlement.yaml", SYNC.replace("account\n", "{? [a, b] : c}\n")))
@example(("syncs/settlement.yaml", SYNC.replace("settlement\n", "!!python/object:os.system x\n", 1)))
def test_a_damaged_file_is_told_with_a_line_that_it_has(found: tuple[str, str]) -> None:
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


def test_a_file_that_is_not_text_is_one_fault(tmp_path: Path) -> None:
    (write_declarations(tmp_path) / "syncs" / "settlement.yaml").write_bytes(b"\xff\xfe\x00sync")
    with pytest.raises(DeclarationsInvalid) as caught:
        load_declarations(tmp_path)
    (fault,) = caught.value.faults
    assert "cannot be read" in fault.cause
