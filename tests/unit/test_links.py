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


def reached(readme: Path) -> set[Path]:
    """The documents that links lead to, from one to the next."""
    found, waiting = set(), [readme.resolve()]
    while waiting:
        document = waiting.pop()
        if document in found or document.suffix != ".md" or not document.exists():
            continue
        found.add(document)
        text = _FENCE.sub("", document.read_text(encoding="utf-8"))
        waiting += [
            (document.parent / (link[1] or link[2]).partition("#")[0]).resolve()
            for link in _LINK.finditer(text)
            if not re.match(r"[a-z]+:|#", link[1] or link[2])
        ]
    return found


def test_the_readme_leads_to_every_document_and_names_each_how_to(checkout: Path) -> None:
    readme = checkout / "README.md"
    there = reached(readme)
    assert [one.name for one in sorted((checkout / "docs").rglob("*.md")) if one.resolve() not in there] == []
    text = readme.read_text(encoding="utf-8")
    assert [
        one.name for one in sorted((checkout / "docs/how-to").glob("*.md")) if f"how-to/{one.name})" not in text
    ] == []


def test_a_planted_document_that_nothing_leads_to_is_not_reached(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# A\n\n[b](b.md#x) [c](https://example.org/c.md)\n", encoding="utf-8")
    for name, text in {
        "b.md": "[d](d.md)",
        "c.md": "",
        "d.md": "`[e](e.md)`\n```\n[f](f.md)\n```\n",
        "f.md": "",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert {one.name for one in reached(tmp_path / "README.md")} == {"README.md", "b.md", "d.md"}


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
