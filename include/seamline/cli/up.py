"""Start the local stack on this machine and wait until every part of it answers."""

import argparse
from typing import Any

from seamline import settings
from seamline.cli.answer import give, progress
from seamline.stack import boot, components, credentials
from seamline.stack.layout import Layout

_USERS = (("viewer", "look"), ("operator", "run"), ("approver", "run and approve"))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    names = ", ".join(components.NAMES)
    parser.add_argument("--only", default="", metavar="NAMES", help=f"these and what they need, of {names}")
    parser.add_argument("--without", default="", metavar="NAMES", help="all but these")


def run(args: argparse.Namespace) -> int:
    said = progress(args)
    layout = Layout(settings.load())
    chosen = components.choose(only=_names(args.only), without=_names(args.without))
    said.say(f"starting {', '.join(part.name for part in chosen)} in {layout.data}")
    boot.up(layout, chosen, said)
    said.say("the stack is up")
    has_airflow = any(part.name == "airflow" for part in chosen)
    if has_airflow:
        print_airflow(layout)
        print("\n  next     `./seamline status`; for your own database docs/how-to/your-own-database.md")
    started = {"data": str(layout.data), "started": [part.name for part in chosen]}
    give(args, {**started, "airflow": airflow_document(layout) if has_airflow else None})
    return 0


def print_airflow(layout: Layout) -> None:
    known = airflow_document(layout)
    print(f"\n  Airflow  {known['address']}")
    print(f"  reports  {known['reports']}")
    for user in known["users"]:
        print(f"           {user['user']:<9} {user['password']:<14} may {user['may']}")


def airflow_document(layout: Layout) -> dict[str, Any]:
    """Where Airflow and its page of reports are, and who may enter."""
    made = credentials.load_or_make(layout)
    address = f"http://127.0.0.1:{layout.settings.ports.airflow}"
    users = [{"user": user, "password": made[f"airflow_user_{user}"], "may": may} for user, may in _USERS]
    return {"address": address, "reports": f"{address}/seamline/page", "users": users}


def _names(given: str) -> list[str]:
    return [name for name in given.replace(",", " ").split() if name]
