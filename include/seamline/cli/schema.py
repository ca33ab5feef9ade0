"""Write what is made from the code: the JSON Schema of the declarations into schemas/, where every YAML's first line
points its editor, and the pages of their keys, of the commands, errors, alarms and metrics into docs/reference/."""

import argparse
import sys
from pathlib import Path

from seamline import settings
from seamline.cli import alarms_page, commands_page, errors_page, figures
from seamline.cli.answer import give
from seamline.spec.schema import made_texts, stale_files, write_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a schema is not current")


def run(args: argparse.Namespace) -> int:
    root = settings.load().root
    if args.check:
        stale = stale_files(root, texts(root))
        sys.stdout.writelines(f"not current: {name}\n" for name in stale)
        give(args, {"not_current": stale})
        return 1 if stale else 0
    written = write_files(root, texts(root))
    sys.stdout.writelines(f"wrote {name}\n" for name in written)
    sys.stdout.write(f"{len(written)} written, the others were current\n")
    give(args, {"written": written})
    return 0


def texts(root: Path) -> dict[str, str]:
    """Of every file that is made, by its path in the checkout."""
    # It knows this module, as one of its commands.
    from seamline.cli import main

    parsers = {name: (summary, main.parser_of(name)) for name, (_, summary) in main.COMMANDS.items()}
    return made_texts() | {
        commands_page.PAGE: commands_page.page(parsers),
        errors_page.PAGE: errors_page.page(root),
        alarms_page.PAGE: alarms_page.page(),
        figures.PAGE: figures.page(),
    }
