"""Start the local stack on this machine and wait until every part of it answers."""

import argparse

from seamline import settings
from seamline.stack import boot, components, credentials
from seamline.stack.layout import Layout
from seamline.stack.progress import Progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(components.NAMES)
    parser.add_argument("--only", default="", metavar="NAMES", help=f"these and what they need, of {names}")
    parser.add_argument("--without", default="", metavar="NAMES", help="all but these")


def run(args: argparse.Namespace) -> int:
    progress = Progress()
    layout = Layout(settings.load())
    chosen = components.choose(only=_names(args.only), without=_names(args.without))
    progress.say(f"starting {', '.join(part.name for part in chosen)} in {layout.data}")
    boot.up(layout, chosen, progress)
    progress.say("the stack is up")
    if any(part.name == "airflow" for part in chosen):
        print_airflow(layout)
    return 0


def print_airflow(layout: Layout) -> None:
    """Say where Airflow and its page of reports are, and who may enter."""
    made = credentials.load_or_make(layout)
    address = f"http://127.0.0.1:{layout.settings.ports.airflow}"
    print(f"\n  Airflow  {address}")
    print(f"  reports  {address}/seamline/page")
    for user, may in (("viewer", "look"), ("operator", "run"), ("approver", "run and approve")):
        print(f"           {user:<9} {made[f'airflow_user_{user}']:<14} may {may}")


def _names(given: str) -> list[str]:
    return [name for name in given.replace(",", " ").split() if name]
