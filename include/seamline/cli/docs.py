"""Make a site of the documents, to be read in a browser without a network.

The first time it installs what makes the site: an environment of its own, from requirements-docs.txt. A link that leads
nowhere is an error.
"""

import argparse
import sys

from seamline import settings
from seamline.cli.answer import give, progress
from seamline.stack import docs_site
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    del parser


def run(args: argparse.Namespace) -> int:
    site = docs_site.build(Layout(settings.load()), progress(args))
    pages = len(list(site.rglob("*.html")))
    sys.stdout.write(f"{pages} pages: {site / 'index.html'}\n")
    give(args, {"site": str(site), "pages": pages})
    return 0
