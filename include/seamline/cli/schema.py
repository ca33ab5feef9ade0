"""Write the JSON Schema of the declarations into schemas/, where every YAML's first line points its editor."""

import argparse
import sys

from seamline import settings
from seamline.spec.schema import stale_schemas, write_schemas


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--check", action="store_true", help="write nothing; exit 1 if a schema is not current")


def run(args: argparse.Namespace) -> int:
    folder = settings.load().root / "schemas"
    if args.check:
        stale = stale_schemas(folder)
        sys.stdout.writelines(f"not current: schemas/{name}\n" for name in stale)
        return 1 if stale else 0
    written = write_schemas(folder)
    sys.stdout.writelines(f"wrote schemas/{path.name}\n" for path in written)
    sys.stdout.write(f"{len(written)} written, the others were current\n")
    return 0
