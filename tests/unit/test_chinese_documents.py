"""Documents in Chinese say what the English ones say: section by section, command by command."""

import re
from collections import Counter
from pathlib import Path

import pytest

ENGLISH = {
    "README.md": "README.md",
    "capture.md": "docs/concepts/capture.md",
    "reconciliation-and-cuts.md": "docs/concepts/reconciliation-and-cuts.md",
    "first-hour.md": "docs/tutorial/first-hour.md",
    "why-nothing-is-lost-or-doubled.md": "docs/concepts/why-nothing-is-lost-or-doubled.md",
}
_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


def shape(text: str) -> dict[str, object]:
    """What a translation leaves as it is: blocks, levels of headings, rows of tables, items, and code within a line."""
    plain = _FENCE.sub("", text)
    return {
        "blocks": _FENCE.findall(text),
        "headings": [len(marks) for marks in re.findall(r"^(#+) ", plain, re.MULTILINE)],
        "rows": len(re.findall(r"^\|", plain, re.MULTILINE)),
        "items": len(re.findall(r"^- ", plain, re.MULTILINE)),
        "commands": Counter(re.sub(r"\s+", " ", one) for one in re.findall(r"`(\./seamline[^`]*)`", plain)),
        # Each may link to the other.
        "links": len(re.findall(r"\]\(", plain)) - len(re.findall(r"^\[(?:English|中文)\]\(", plain, re.MULTILINE)),
    }


@pytest.mark.parametrize("name", sorted(ENGLISH))
def test_a_document_in_chinese_has_what_the_english_one_has(name: str, checkout: Path) -> None:
    chinese = (checkout / "docs" / "zh" / name).read_text(encoding="utf-8")
    english = (checkout / ENGLISH[name]).read_text(encoding="utf-8")
    assert shape(chinese) == shape(english)


def test_every_document_in_chinese_has_an_english_one(checkout: Path) -> None:
    assert {one.name for one in (checkout / "docs" / "zh").glob("*.md")} == set(ENGLISH)


@pytest.mark.parametrize(
    "missing", ["## B\n", "```sh\nls\n```\n", "| a |\n", "- one\n", "`./seamline up`\n", "[a](b)\n"]
)
def test_what_a_translation_lacks_is_found(missing: str) -> None:
    whole = "# A\n\n## B\n\n```sh\nls\n```\n\n| a |\n\n- one\n\n`./seamline up`\n\n[a](b)\n"
    assert shape(whole) == shape(whole.replace("A", "甲"))
    assert shape(whole) != shape(whole.replace(missing, ""))
