"""Every command as a page for people, made from the parsers that read them."""

import argparse
from collections.abc import Mapping

from seamline.cli.answer import WITHOUT_JSON, CommandParser

PAGE = "docs/reference/commands.md"
_HEAD = """\
# Commands

Made from the parsers by `./seamline schema`; a test holds it current. `./seamline <command> -h` says the same. Every
command but {without} takes `--json`: [from a program](../how-to/use-from-a-program.md).
"""
_COLUMNS = "| argument | means |\n|---|---|"
# Said once, above.
_EVERYWHERE = frozenset({"--help", "--json"})


def page(commands: Mapping[str, tuple[str, CommandParser]]) -> str:
    """`commands`: by name the summary and what reads its arguments."""
    without = ", ".join(f"`{name}`" for name in sorted(WITHOUT_JSON))
    parts = [_HEAD.format(without=without)]
    for name, (summary, parser) in sorted(commands.items()):
        said = (parser.description or "").strip()
        parts.append(f"## {name}\n\n*{summary}*\n\n{said}\n")
        parts += [_arguments(leaf) for leaf in parser.leaves()]
        if parser.epilog:
            parts.append(f"{parser.epilog}\n")
    return "\n".join(parts)


def _arguments(parser: CommandParser) -> str:
    shown = [one for one in parser._actions if not _EVERYWHERE.intersection(one.option_strings)]  # noqa: SLF001
    rows = [f"| {_named(one)} | {_cell(one.help or '')} |" for one in shown]
    table = "\n".join([_COLUMNS, *rows, ""]) if rows else "It takes no arguments.\n"
    return f"`./{parser.prog}`\n\n{table}"


def _named(action: argparse.Action) -> str:
    value = _value(action)
    if not action.option_strings:
        return f"`{value}`"
    names = ", ".join(f"`{name}`" for name in action.option_strings)
    return f"{names}{f' `{value}`' if value and action.nargs != 0 else ''}"


def _value(action: argparse.Action) -> str:
    if action.choices is not None and action.metavar is None:
        return "\\|".join(map(str, action.choices))
    given = action.metavar or (action.dest.upper() if action.option_strings else action.dest)
    return _cell(given if isinstance(given, str) else " ".join(given))


def _cell(text: str) -> str:
    return " ".join(text.replace("%%", "%").replace("|", "\\|").split())
