"""The site of the documents: every link of it leads somewhere, and no page asks for anything from elsewhere."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from seamline import settings
from seamline.domain.errors import TerminalError
from seamline.stack import docs_site
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

# What a browser fetches by itself, by the attribute that names it; a link that a person clicks is none.
LOADS = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "form": "action"}
ELSEWHERE = re.compile(r"(https?:)?//")


class Loads(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if value and LOADS.get(tag) == name and ELSEWHERE.match(value)]


def fetched(site: Path) -> Iterator[str]:
    for page in site.rglob("*.html"):
        reader = Loads()
        reader.feed(page.read_text(encoding="utf-8"))
        yield from (f"{page.name}: {one}" for one in reader.found)
    for sheet in site.rglob("*.css"):
        yield from (f"{sheet.name}: {one}" for one in re.findall(r"url\(['\"]?(?:https?:)?//[^)]*", sheet.read_text()))


def test_the_site_is_built_without_a_warning_and_fetches_nothing(checkout: Path) -> None:
    site = docs_site.build(Layout(settings.load()), Progress())
    assert not list(fetched(site))
    pages = {one.relative_to(site).as_posix() for one in site.rglob("*.html")}
    documents = [one.relative_to(checkout / "docs").with_suffix(".html") for one in (checkout / "docs").rglob("*.md")]
    # A folder's README is its index.
    assert {one.as_posix().replace("README", "index") for one in documents} <= pages
    assert "index.html" in pages, "the README"


@pytest.mark.parametrize(
    ("link", "said"),
    [("[a](gone.md)", "gone.md"), ("[a](#no-such)", "no-such"), ("[a](../include/x.yaml)", ""), ("[a](b.md#b)", "")],
)
def test_a_planted_link_to_nowhere_ends_the_build_and_a_file_of_the_checkout_becomes_text(
    link: str, said: str, tmp_path: Path, checkout: Path
) -> None:
    (tmp_path / "docs" / "how-to").mkdir(parents=True)
    (tmp_path / "README.md").write_text("# Home\n")
    (tmp_path / "docs" / "b.md").write_text("# B\n")
    (tmp_path / "docs" / "a.md").write_text(f"# A\n\n{link}\n")
    shutil.copy(checkout / "requirements-docs.txt", tmp_path)
    layout = Layout(replace(settings.load(), root=tmp_path))
    (tmp_path / "include").mkdir()
    (tmp_path / "include" / "x.yaml").touch()
    if said:
        with pytest.raises(TerminalError, match=said):
            docs_site.build(layout, Progress())
    else:
        page = docs_site.build(layout, Progress()) / "a.html"
        assert ("<code>include/x.yaml</code>" in page.read_text()) == ("include" in link)


def test_a_page_that_asks_elsewhere_is_found(tmp_path: Path) -> None:
    (tmp_path / "x.html").write_text('<a href="https://example.org">a</a><script src="//cdn.example/x.js"></script>')
    (tmp_path / "x.css").write_text("@font-face { src: url(https://fonts.example/x.woff2) }")
    assert [one.split(": ")[0] for one in fetched(tmp_path)] == ["x.html", "x.css"]
