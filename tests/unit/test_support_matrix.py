"""The README names every installed kind: what it is, with which versions it was run, and what was not run."""

import re
from pathlib import Path

from seamline.domain import installed

ROW = re.compile(r"^\| [^|]*`(\w+)` \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)
# Its stores are those of another line.
AS_ANOTHER_LINE = {"change_files"}


def faults(text: str) -> list[str]:
    """What the table lacks."""
    found = {kind: (is_, run, not_run) for kind, is_, run, not_run in ROW.findall(text)}
    wanted = {group: set(installed.names(group)) for group in (installed.SOURCES, installed.SINKS)}
    lacking = [f"{kind} has no line" for kind in sorted(set().union(*wanted.values()) - found.keys())]
    lacking += [f"{kind} is no kind" for kind in sorted(found.keys() - set().union(*wanted.values()))]
    for kind, (is_, run, _) in sorted(found.items()):
        for group, word in ((installed.SOURCES, "source"), (installed.SINKS, "destination")):
            if (word in is_) != (kind in wanted[group]):
                lacking.append(f"{kind} is {word}, or is not")
        if not re.search(r"\d\.\d", run) and kind not in AS_ANOTHER_LINE:
            lacking.append(f"{kind} names no version that was run")
    return lacking


def test_every_kind_has_its_line_with_versions(checkout: Path) -> None:
    assert faults((checkout / "README.md").read_text(encoding="utf-8")) == []


def test_a_line_that_lacks_or_says_something_else_is_found(checkout: Path) -> None:
    text = (checkout / "README.md").read_text(encoding="utf-8")
    (redis,) = [line for line in text.splitlines() if "`redis`" in line]
    assert faults(text.replace(redis, "")) == ["redis has no line"]
    assert faults(text.replace("`redis`", "`cache`"))[:2] == ["redis has no line", "cache is no kind"]
    assert faults(text.replace(redis, redis.replace("8.0.6", "some"))) == ["redis names no version that was run"]
    assert faults(text.replace(redis, redis.replace("destination without", "source without"))) == [
        "redis is source, or is not",
        "redis is destination, or is not",
    ]
