"""Commands that documents, hints and pages show are commands: the real parsers take them, and their files are there."""

import argparse
import ast
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from seamline.cli.main import COMMANDS, parser_of
from tests.documented import BLOCK, lines_of, seamline_words
from tests.unit.test_links import documents

_INLINE = re.compile(r"`(\./seamline(?: [^`]*)?)`")
# What stands for something of the reader's own.
_DATE = re.compile(r"<(?:date|from|to|first|last)>|\b(?:DATE|FROM|TO)\b")
# A command with its answer: lines that begin with `$` are typed.
_TYPED = re.compile(r"^ *\$ (.*)$", re.MULTILINE)
_CONSOLE = re.compile(r"^ *```console\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
_VERB = re.compile(r"\./seamline ([a-z]+)\b")
_OWN = re.compile(r"<[^>]*>|\{[^}]*\}|…")
# Files of the checkout that a block names have to be there.
_FOLDERS = ("bench/", "deploy/", "docs/", "examples/", "tests/", "spark_jobs/", "plugins/")
# What a person need not write out where a command is only named.
_NEEDS_MORE = ("the following arguments are required", "expected one argument", "expected at least one argument")


class _Wrong(Exception):
    pass


def mistake(words: list[str], *, is_whole: bool) -> str:
    """What a real parser says against it; "" where it takes it. What is only named may lack arguments."""
    if not words or words[0] in ("x", "-h", "packages"):
        return ""
    if words[0] not in COMMANDS:
        return f"there is no command {words[0]}"
    parser = parser_of(words[0])

    def refuse(self: argparse.ArgumentParser, message: str) -> None:
        raise _Wrong(message)

    kept = argparse.ArgumentParser.error
    argparse.ArgumentParser.error = refuse  # type: ignore[method-assign, assignment]
    try:
        parser.parse_args(words[1:])
    except _Wrong as wrong:
        return "" if not is_whole and any(one in str(wrong) for one in _NEEDS_MORE) else str(wrong)
    except SystemExit:
        return ""
    finally:
        argparse.ArgumentParser.error = kept  # type: ignore[method-assign]
    return ""


def of_reader(text: str) -> str:
    """With values in place of what the reader has to fill in; of alternatives the first."""
    text = re.sub(r"\[([^\]]*)\]", r"\1", text)
    return re.sub(r"(\S+)(?: ?\| ?\S+)+", r"\1", _OWN.sub("x", _DATE.sub("2026-11-20", text)))


def broken_commands(document: Path, checkout: Path) -> Iterator[str]:
    text = document.read_text(encoding="utf-8")
    typed = ["\n".join(_TYPED.findall(block)) for block in _CONSOLE.findall(text)]
    for block in [*BLOCK.findall(text), *typed]:
        for command in lines_of(of_reader(block) if "<" in block else block):
            words = seamline_words(command)
            if words is not None and (said := mistake(words, is_whole=True)):
                yield f"./seamline {' '.join(words)}: {said}"
            for word in command:
                if word.startswith(_FOLDERS) and not (checkout / word).exists():
                    yield f"{word}: no such file"
    yield from broken_mentions(_INLINE.findall(BLOCK.sub("", text)))


def broken_mentions(shown: list[str]) -> Iterator[str]:
    for one in shown:
        try:
            words = shlex.split(of_reader(one.rstrip(".,;:)")))
        except ValueError:
            continue  # cut off in the middle of a text
        given = seamline_words(words)
        if given and (said := mistake(given, is_whole=False)):
            yield f"{one}: {said}"


def test_every_command_in_a_document_is_taken_by_the_real_parser(checkout: Path) -> None:
    found = [
        f"{path.relative_to(checkout)}: {said}"
        for path in documents(checkout)
        for said in broken_commands(path, checkout)
    ]
    assert not found, "\n" + "\n".join(found)


def texts_of(file: Path) -> Iterator[str]:
    """The strings of a module; of those with values in them their fixed parts, with a mark between."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "<x>" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner:
            yield node.value


def test_every_command_that_an_error_or_a_page_names_is_taken_by_the_real_parser(checkout: Path) -> None:
    found = []
    for folder in ("include", "plugins", "spark_jobs"):
        for file in (checkout / folder).rglob("*.py"):
            texts = list(texts_of(file))
            wrong = broken_mentions([one for text in texts for one in _INLINE.findall(text)])
            unknown = {verb for text in texts for verb in _VERB.findall(text)} - {*COMMANDS, "packages"}
            found += [f"{file.relative_to(checkout)}: {one}" for one in [*wrong, *sorted(unknown)]]
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("block", "said"),
    [
        ("./seamline state", "there is no command state"),
        ("./seamline status --wach", "unrecognized arguments: --wach"),
        ("SEAMLINE_PORT_BASE=22000 ./seamline up --onyl x | cat", "unrecognized arguments: --onyl x"),
        ("./seamline cut", "the following arguments are required: sync"),
        ("python bench/gone.py", "bench/gone.py: no such file"),
        ("./seamline backfill settlement \\\n  --agein", "unrecognized arguments: --agein"),
        ("`./seamline stream halt <sync>`", "invalid choice: 'halt'"),
    ],
)
def test_a_planted_mistake_is_found(block: str, said: str, tmp_path: Path, checkout: Path) -> None:
    document = tmp_path / "x.md"
    document.write_text(block if block.startswith("`") else f"# A\n\n```sh\n{block}\n```\n", encoding="utf-8")
    assert said in "\n".join(broken_commands(document, checkout))


def test_a_planted_mistake_beside_its_answer_is_found(tmp_path: Path, checkout: Path) -> None:
    document = tmp_path / "x.md"
    shown = "# A\n\n```console\n$ ./seamline {}\nall is well, ./seamline nonsense\n```\n"
    document.write_text(shown.format("status --wach"), encoding="utf-8")
    assert "--wach" in "\n".join(broken_commands(document, checkout))
    document.write_text(shown.format("status --watch"), encoding="utf-8")
    assert not list(broken_commands(document, checkout))


def test_what_is_right_and_what_belongs_to_another_program_is_not_found(tmp_path: Path, checkout: Path) -> None:
    document = tmp_path / "x.md"
    right = "./seamline exec --as warehouse psql <<'SQL'\n./seamline nonsense\nSQL\nmake up # ./seamline nonsense\n"
    more = "`./seamline cut <sync> <date>` `./seamline connect list | test` ./seamline demo --with lake\n"
    document.write_text(f"# A\n\n```sh\n{right}```\n{more}", encoding="utf-8")
    assert not list(broken_commands(document, checkout))
