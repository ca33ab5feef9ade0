"""Every relative link of the documents leads to a file of the checkout, and its fragment to a heading there."""

import re
from collections.abc import Iterator
from pathlib import Path

_FENCE = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(<?([^)\s>]+)>?\)|\bsrc=\"([^\"]+)\"")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)


def documents(checkout: Path) -> list[Path]:
    folders = [one for one in checkout.iterdir() if one.is_dir() and not one.name.startswith(".")]
    return sorted([*checkout.glob("*.md"), *(path for folder in folders for path in folder.rglob("*.md"))])


def anchor(heading: str) -> str:
    """The fragment that GitHub gives a heading; of two headings with one text the second one is not known here."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def broken_links(document: Path) -> Iterator[str]:
    text = _CODE.sub("", _FENCE.sub("", document.read_text(encoding="utf-8")))
    for found in _LINK.finditer(text):
        link = found[1] or found[2]
        if re.match(r"[a-z]+:", link):
            continue
        path, _, fragment = link.partition("#")
        target = document.parent / path if path else document
        if not target.exists():
            yield f"{link}: no such file"
        elif fragment and target.suffix == ".md":
            headings = _HEADING.findall(_FENCE.sub("", target.read_text(encoding="utf-8")))
            if fragment not in map(anchor, headings):
                yield f"{link}: no such heading"


def test_every_relative_link_leads_to_a_file_and_a_heading(checkout: Path) -> None:
    found = [f"{path.relative_to(checkout)}: {said}" for path in documents(checkout) for said in broken_links(path)]
    assert not found, "\n" + "\n".join(found)


def test_a_planted_link_to_nowhere_is_found_and_code_is_no_link(tmp_path: Path) -> None:
    (tmp_path / "there.md").write_text("# A title\n\n## What `lock: brief` is, and why\n", encoding="utf-8")
    document = tmp_path / "x.md"
    good = "[a](there.md#what-lock-brief-is-and-why) [b](https://example.org/x.md)\n"
    code = "`[c](gone.md)`\n```\n[d](gone.md)\n```\n"
    document.write_text(good + code, encoding="utf-8")
    assert not list(broken_links(document))
    document.write_text('[a](gone.md) [b](there.md#no) [c](#no)\n<img src="gone.png">\n', encoding="utf-8")
    assert [said.split(":")[0] for said in broken_links(document)] == ["gone.md", "there.md#no", "#no", "gone.png"]
