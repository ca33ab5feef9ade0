"""Blocks of the documents, run as they stand on the stack of the demo."""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.documented import block

# The first command that fails ends a block. One that reports something red, as a date that is missing, has not failed.
STRICT = """trap 'code=$?; case "$BASH_COMMAND:$code" in "./seamline status"*:1) ;; *) exit $code ;; esac' ERR
"""


@dataclass(frozen=True)
class Walk:
    checkout: Path

    def run(
        self,
        page: str,
        begins: str,
        *,
        fill: Mapping[str, str] | None = None,
        lines: slice = slice(None),
        typed: str = "",
        ends: int = 0,
        within_s: float = 300,
    ) -> str:
        """What the block of `page` that begins so writes to its output. `fill`: what the reader puts in place of what.
        `lines`: of the block these alone."""
        text = "".join(block(self.checkout, page, begins).splitlines(keepends=True)[lines])
        for theirs, ours in (fill or {}).items():
            assert theirs in text, (page, theirs)
            text = text.replace(theirs, ours)
        ended = self.shell(text, typed=typed, within_s=within_s)
        assert ended.returncode == ends, (page, text, ended.returncode, ended.stdout[-3000:], ended.stderr[-3000:])
        return ended.stdout

    def shell(self, text: str, *, typed: str = "", within_s: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-uc", STRICT + text],
            cwd=self.checkout,
            input=typed,
            capture_output=True,
            text=True,
            timeout=within_s,
            check=False,
        )

    def program(self, text: str, *, run_by: str, within_s: float = 300) -> str:
        """What a program writes that `run_by`, a command of the checkout, reads from its input."""
        ended = self.shell(run_by, typed=text, within_s=within_s)
        assert ended.returncode == 0, (text, ended.stdout[-3000:], ended.stderr[-3000:])
        return ended.stdout


def like(shown: str) -> re.Pattern[str]:
    """A line that a page shows, whatever its numbers are."""
    return re.compile(re.sub(r"\\?\d[\d,]*", r"[\\d,]+", re.escape(shown)))
