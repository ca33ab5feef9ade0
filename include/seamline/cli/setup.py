"""Make or mend the environment and the jars; start nothing.

`--with hudi` makes an environment beside it: Spark 3.5 with Hudi, 600 MB, for those who read Hudi tables by Hudi's own
reader. Seamline itself writes and reads them without it. `--with hbase` fetches HBase's client, 70 MB, which
destinations of that kind need.
"""

import argparse

from seamline import settings
from seamline.cli.answer import give, progress
from seamline.stack import boot, hbase_client, hudi_environment
from seamline.stack.layout import Layout


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jars", default="", metavar="NAMES", help="only these configurations of jars/ivy.xml")
    text = "also hudi: an environment of its own, with Hudi and its Spark (600 MB); or hbase: HBase's client (70 MB)"
    parser.add_argument("--with", dest="beside", choices=["hudi", "hbase"], default="", help=text)


def run(args: argparse.Namespace) -> int:
    said = progress(args)
    # The launcher has made the Python environment before it came here.
    names = [name for name in args.jars.replace(",", " ").split() if name]
    layout = Layout(settings.load())
    boot.prepare(layout, said, configurations=names)
    said.say("environment and jars are in place")
    beside: dict[str, str] | None = None
    if args.beside == "hbase":
        beside = {"folder": str(hbase_client.prepare(layout, said))}
        said.say(f"HBase's client is in place: {beside['folder']}")
    elif args.beside:
        made = hudi_environment.prepare(layout, said)
        beside = {"python": str(made.python), "jar": str(made.jar)}
        said.say(f"Hudi's environment is in place: {made.python} with {made.jar}")
    give(args, {"python": str(layout.python), "jars": str(layout.jars), "beside": beside})
    return 0
