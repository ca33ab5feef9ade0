"""Pages that are made from the code: what they hold of it."""

from pathlib import Path

from seamline.cli import commands_page, errors_page
from seamline.cli.answer import CommandParser
from seamline.cli.errors_page import raised

CODE = """
def f(name):
    raise ConfigError(f"there is no sync `{self.name}` | {guess(name)}", hint="name *one*")
    raise ConfigError("without a cure")
    raise ValueError("of somebody else")
"""


def test_an_error_comes_with_its_cause_and_its_cure(tmp_path: Path) -> None:
    file = tmp_path / "include" / "seamline" / "cli" / "cut.py"
    file.parent.mkdir(parents=True)
    file.write_text(CODE)
    (one,) = raised(tmp_path)
    assert (one.kind, one.module, one.cure) == ("ConfigError", "cut", r"name \*one\*")
    assert one.cause == r"there is no sync `<name>` \| \<…>"
    assert f"| {one.cause} | {one.cure} | cut |" in errors_page.page(tmp_path)


def test_a_command_comes_with_every_argument_of_every_order(checkout: Path) -> None:
    parser = CommandParser(prog="seamline planted", description="What it does.")
    orders = parser.add_subparsers()
    orders.add_parser("add").add_argument("--mode", choices=["a", "b"], help="50 %% of it")
    orders.add_parser("list").add_argument("id")
    page = commands_page.page({"planted": ("in short", parser)})
    assert "| `--mode` `a\\|b` | 50 % of it |" in page and "`./seamline planted list`" in page and "| `id` |  |" in page
    assert "## status" in (checkout / commands_page.PAGE).read_text(encoding="utf-8")
