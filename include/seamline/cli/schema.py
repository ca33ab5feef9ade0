"""Write the JSON Schema of the declarations into schemas/, where every YAML's first line points its editor, and the
page of all their keys into docs/reference/."""

import argparse
import sys

from seamline import settings
from seamline.cli.answer import give
from seamline.spec.schema import stale_files, write_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a schema is not current")


def run(args: argparse.Namespace) -> int:
    root = settings.load().root
    if args.check:
        stale = stale_files(root)
        sys.stdout.writelines(f"not current: {name}\n" for name in stale)
        give(args, {"not_current": stale})
        return 1 if stale else 0
    written = write_files(root)
    sys.stdout.writelines(f"wrote {name}\n" for name in written)
    sys.stdout.write(f"{len(written)} written, the others were current\n")
    give(args, {"written": written})
    return 0
