"""Refresh the locks of Python packages (requirements*.txt) from their lists, and jars/jars.lock from jars/ivy.xml."""

import argparse
import shutil
import tempfile
from pathlib import Path

from seamline import settings
from seamline.cli.answer import give
from seamline.stack import jars, python_lock
from seamline.stack.layout import Layout

# Of each list of packages what installs it.
_LISTS = (
    (python_lock.MAIN, "./seamline setup"),
    (python_lock.HUDI, "./seamline setup --with hudi"),
    (python_lock.DOCS, "./seamline docs"),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", nargs="?", choices=["python", "jars"], help="python or jars; left out: both")


def run(args: argparse.Namespace) -> int:
    layout, counts = Layout(settings.load()), dict[str, int]()
    root = layout.settings.root
    if args.what in (None, "python"):
        for name, command in _LISTS:
            counts[f"{name}.txt"] = count = python_lock.refresh(layout, name)
            print(f"{name}.txt holds {count} packages; {command} installs them")
    if args.what in (None, "jars"):
        with tempfile.TemporaryDirectory(dir=layout.settings.env) as folder:
            files = Path(folder) / "jars"
            jars.ivy(layout, settings.process_environment())(["*"], files)
            counts["jars/jars.lock"] = count = jars.write_lock(root / "jars" / "jars.lock", files)
            shutil.rmtree(files)
        print(f"jars/jars.lock holds {count} files; ./seamline setup fetches them")
    give(args, {"files": counts})
    return 0
