"""Commands and programs as documents show them, in blocks of code."""

import re
import shlex
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BLOCK = re.compile(r"^ *```sh\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
# What a person copies to run it; `console` has the answer beside the command.
LANGUAGES = ("console", "py", "python", "sh", "sql")
_ANY_BLOCK = re.compile(r"^( *)```(\w*)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_HEREDOC = re.compile(r"<<-?\s*'?(\w+)'?.*?\n\s*\1\s*$", re.MULTILINE | re.DOTALL)
_SEPARATORS = {"|", "||", "&&", ";", "&", "(", ")"}
# Of `./seamline`: what changes nothing.
_LOOKS = frozenset({"audit", "cuts", "doctor", "explain", "grants", "report", "status", "tables", "validate"})
_CHANGES = re.compile(r"\b(?:UPDATE|DELETE|INSERT)\b")


@dataclass(frozen=True, slots=True)
class Block:
    """`page`: its path in the checkout."""

    page: str
    language: str
    text: str

    @property
    def first(self) -> str:
        return self.text.split("\n", 1)[0]


def blocks_of(checkout: Path) -> Iterator[Block]:
    """All blocks of the documents for people, in the order of pages; decisions are not among them."""
    for path in [checkout / "README.md", *sorted((checkout / "docs").rglob("*.md"))]:
        page = path.relative_to(checkout).as_posix()
        if not page.startswith("docs/adr/"):
            for _, language, text in _ANY_BLOCK.findall(path.read_text(encoding="utf-8")):
                yield Block(page, language, textwrap.dedent(text))


def block(checkout: Path, page: str, begins: str) -> str:
    """The text of the one block of a page that begins so."""
    found = [one.text for one in blocks_of(checkout) if one.page == page and one.text.startswith(begins)]
    assert len(found) == 1, f"{page} has {len(found)} blocks that begin with {begins!r}"
    return found[0]


def declarations_of(checkout: Path, page: str) -> dict[str, str]:
    """By the name below `include/` the files of declarations that a page shows; a file may be shown in part."""
    named = ((re.match(r"# include/(\S+)\n", one.text), one) for one in blocks_of(checkout) if one.page == page)
    return {name[1]: one.text for name, one in named if name}


def lines_of(block: str) -> Iterator[list[str]]:
    """The simple commands of a block, each in words."""
    text = _HEREDOC.sub("", block).replace("\\\n", " ")
    text = re.sub(r"\$\(([^)]*)\)", "2026-11-20", text)
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars="();|&")
        lexer.whitespace_split, lexer.commenters = True, "#"
        try:
            words = list(lexer)
        except ValueError:
            continue  # a quotation over several lines: data of another program
        command: list[str] = []
        for word in [*words, ";"]:
            if word in _SEPARATORS:
                yield command
                command = []
            else:
                command.append(word)


def seamline_words(command: list[str]) -> list[str] | None:
    """What ./seamline is given in it; None where it is another program's command."""
    words = [word for word in command if not re.match(r"[A-Z_]+=", word)]
    if words[:1] != ["./seamline"]:
        return None
    ends = [place for place, word in enumerate(words) if re.match(r"\d?[<>]", word)]
    return words[1 : min(ends, default=len(words))]


def looking_blocks(page: Path) -> Iterator[str]:
    """The blocks of a page whose every command is of `./seamline` and only looks."""
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        commands = [command for command in lines_of(block) if command]
        if commands and all(map(_looks, commands)) and not _CHANGES.search(block):
            yield block


def _looks(command: list[str]) -> bool:
    words = seamline_words(command)
    # What asks every declared server is right only where all of them can be asked.
    if not words or "--online" in words:
        return False
    return words[0] in _LOOKS or words[:2] == ["exec", "--as"]
