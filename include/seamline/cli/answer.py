"""How a command answers: lines for people or, with `--json`, one document that holds the same facts.

`main` gives every command the option but those of `WITHOUT_JSON`. What a command prints for people is put aside then,
progress goes to the error output, and the document that it has given is written at its end. An error is a document too.
"""

import argparse
import io
import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import asdict, fields, is_dataclass
from datetime import date, datetime
from enum import Enum
from typing import Any

from seamline.domain.errors import InvariantViolated, SeamlineError
from seamline.spec.faults import DeclarationsInvalid, shown
from seamline.stack.progress import Progress

# Why a command has no document.
WITHOUT_JSON: dict[str, str] = {
    "exec": "it becomes the program that it names",
    "logs": "it shows what another program has written, or becomes `tail`",
    "test": "it shows what pytest writes",
}


class CommandParser(argparse.ArgumentParser):
    """Knows the parsers below it, of which one reads what a person gave."""

    below: "argparse._SubParsersAction[CommandParser] | None" = None

    def add_subparsers(self, **how: Any) -> "argparse._SubParsersAction[CommandParser]":  # type: ignore[override]
        self.below = super().add_subparsers(parser_class=CommandParser, **how)
        return self.below

    def leaves(self) -> Iterator["CommandParser"]:
        if self.below is None:
            yield self
        else:
            for one in self.below.choices.values():
                yield from one.leaves()


def add_json(parser: CommandParser) -> None:
    for leaf in parser.leaves():
        leaf.add_argument("--json", action="store_true", help="one JSON document on the output, progress beside it")


@contextmanager
def answered(args: argparse.Namespace) -> Iterator[None]:
    """Write the document that the block gives, or that of its error, where one was asked for."""
    if not getattr(args, "json", False):
        yield
        return
    try:
        with redirect_stdout(io.StringIO()):
            yield
        if not hasattr(args, "document"):
            raise InvariantViolated("the command has given no document")  # noqa: TRY301 (its text is one, too)
    except SeamlineError as error:
        _write(error_document(error))
        raise
    _write(args.document)


def give(args: argparse.Namespace, document: Any) -> None:
    """What the command has to say, for a program. Values of `jsonable`."""
    args.document = document


def say(args: argparse.Namespace, text: str) -> None:
    """Progress: beside a document, and never within it."""
    stream = sys.stderr if args.json else sys.stdout
    stream.write(f"{text}\n")
    stream.flush()


def progress(args: argparse.Namespace) -> Progress:
    return Progress(out=sys.stderr if args.json else None)


def error_document(error: SeamlineError) -> dict[str, Any]:
    known = {name: getattr(error, name) for name in ("hint", "sync", "table", "position")}
    said: dict[str, Any] = {"kind": type(error).__name__, "message": error.message}
    said |= {name: value for name, value in known.items() if value}
    if isinstance(error, DeclarationsInvalid):
        said["faults"] = [{**asdict(one), "file": shown(one.file)} for one in error.faults]
    return {"error": said}


def jsonable(value: Any) -> Any:
    """As JSON has it: moments and dates as ISO 8601, what JSON cannot hold by its text."""
    match value:
        case None | bool() | int() | float():
            return value
        case Enum():
            return value.value
        case str():
            return str(value)
        case datetime() | date():
            return value.isoformat()
        case Mapping():
            return {str(key): jsonable(one) for key, one in value.items()}
        case list() | tuple() | set() | frozenset():
            return [jsonable(one) for one in value]
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: jsonable(getattr(value, one.name)) for one in fields(value)}
    return str(value)


def _write(document: Any) -> None:
    sys.stdout.write(json.dumps(jsonable(document), ensure_ascii=False, indent=2) + "\n")
