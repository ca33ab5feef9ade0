"""A site of docs/, by MkDocs with Material's theme: folders as sections, nothing fetched by a page.

Documents link to each other, and to files of the checkout that are no documents. A site has the first alone, so the
others become text with the file's path.
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from seamline import settings
from seamline.domain.errors import TerminalError
from seamline.stack import environment_beside, python_lock
from seamline.stack.folder_lock import lock_after_waiting
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress

# Folder → what the section is called, in the order of the menu.
SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How-to",
    "reference": "Reference",
    "concepts": "Concepts",
    "reliability": "Reliability",
    "zh": "中文",
    "adr": "Decisions",
}
# Documents beside docs/ that are pages, too.
_BESIDE = {"README.md": "index.md", "CHANGELOG.md": "changelog.md"}
_BUILD_TIMEOUT_S = 600
# Fragments as GitHub makes them, by a function: only YAML can name one.
_ANCHORS = '!!python/object/apply:pymdownx.slugs.slugify {"kwds": {"case": "lower"}}'
_LINK = re.compile(r"(!?\[(?:[^\[\]]|\[[^\]]*\])*\])\(<?([^)\s>]+)>?\)")
_FENCE = re.compile(r"^( *```.*?^ *```)$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"^# (.+)$", re.MULTILINE)


def build(layout: Layout, progress: Progress) -> Path:
    """The folder of the site. What a page links to and is not there is an error."""
    root, place = layout.settings.root, layout.docs
    with lock_after_waiting(
        layout.settings.env, "docs", on_wait=lambda: progress.say("waiting for another build of the site")
    ):
        if not environment_beside.is_made(layout, place, python_lock.DOCS):
            progress.say("installing the environment of requirements-docs.txt (some seconds, once)")
            environment_beside.make(layout, place, python_lock.DOCS)
        shutil.rmtree(place / "pages", ignore_errors=True)
        stage(root, place / "pages")
        # YAML takes JSON as it is.
        text = json.dumps(_configuration(place), ensure_ascii=False).replace(json.dumps(_ANCHORS), _ANCHORS)
        (place / "mkdocs.yml").write_text(text, encoding="utf-8")
        progress.say("building the site")
        _run_mkdocs(place)
    return place / "site"


def _run_mkdocs(place: Path) -> None:
    # Not --quiet: what it does not say, --strict does not count.
    command = [str(environment_beside.python_of(place)), "-m", "mkdocs", "build", "--strict", "--clean"]
    # It must not use our own packages, nor ask whether there is a newer theme.
    variables = {**settings.process_environment(), "PYTHONNOUSERSITE": "1", "NO_MKDOCS_2_WARNING": "1"}
    variables.pop("PYTHONPATH", None)
    answer = subprocess.run(
        [*command, "-f", str(place / "mkdocs.yml")],
        env=variables,
        cwd=place,
        capture_output=True,
        text=True,
        timeout=_BUILD_TIMEOUT_S,
        check=False,
    )
    if answer.returncode != 0:
        said = "\n".join(line for line in answer.stderr.splitlines() if line.startswith(("WARNING", "ERROR")))
        raise TerminalError(f"the site could not be built:\n{said or answer.stderr.strip()}", hint="mend what it names")


def stage(root: Path, pages: Path) -> None:
    """Copy every document to where the site wants it, with its links as they are there."""
    sources = {root / name: pages / target for name, target in _BESIDE.items() if (root / name).is_file()}
    for file in sorted((root / "docs").rglob("*")):
        if file.is_file():
            sources[file] = pages / file.relative_to(root / "docs")
    for source, target in sources.items():
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            target.write_text(relinked(source, target, root, sources), encoding="utf-8")
        else:
            shutil.copyfile(source, target)


def relinked(source: Path, target: Path, root: Path, pages: dict[Path, Path]) -> str:
    """The text of a document with links to pages from its new place, and paths of the checkout in place of others."""

    def link(found: re.Match[str]) -> str:
        text, address = found[1], found[2]
        path, mark, fragment = address.partition("#")
        if re.match(r"[a-z]+:", address) or not path:
            return found[0]
        aim = Path(os.path.normpath(source.parent / path))
        if aim in pages:
            return f"{text}({os.path.relpath(pages[aim], target.parent)}{mark}{fragment})"
        # What is not there stays a link, which the build refuses.
        return f"{text[1:-1]} (`{aim.relative_to(root)}`)" if aim.exists() else found[0]

    parts = _FENCE.split(source.read_text(encoding="utf-8"))
    return "".join(part if part.lstrip().startswith("```") else _LINK.sub(link, part) for part in parts)


def _configuration(place: Path) -> dict[str, object]:
    return {
        "site_name": "Seamline",
        "docs_dir": str(place / "pages"),
        "site_dir": str(place / "site"),
        "use_directory_urls": False,
        "theme": {
            "name": "material",
            # Its own would be fetched from elsewhere.
            "font": False,
            "features": ["navigation.tabs", "navigation.top", "content.code.copy", "search.suggest"],
            "palette": [
                {"media": "(prefers-color-scheme: light)", "scheme": "default", "primary": "indigo"},
                {"media": "(prefers-color-scheme: dark)", "scheme": "slate", "primary": "indigo"},
            ],
        },
        "extra": {"generator": False},
        "plugins": ["search"],
        "markdown_extensions": ["tables", "attr_list", "pymdownx.superfences", "pymdownx.highlight",
                                {"toc": {"permalink": True, "slugify": _ANCHORS}}],
        "validation": {"anchors": "warn", "links": {"absolute_links": "warn", "unrecognized_links": "warn"}},
        "nav": list(_navigation(place / "pages")),
    }  # fmt: skip


def _navigation(pages: Path) -> Iterator[dict[str, object]]:
    yield {"Home": "index.md"}
    for folder, title in SECTIONS.items():
        if listed := [_entry(pages, file) for file in sorted((pages / folder).rglob("*.md"))]:
            yield {title: listed}
    others = [file for file in sorted(pages.glob("*.md")) if file.name != "index.md"]
    yield {"More": [_entry(pages, file) for file in others]}


def _entry(pages: Path, file: Path) -> dict[str, object]:
    title = _TITLE.search(file.read_text(encoding="utf-8"))
    return {title[1] if title else file.stem: str(file.relative_to(pages))}
