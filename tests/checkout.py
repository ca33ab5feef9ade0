"""Of which day and which code a report or a figure is."""

import subprocess
from datetime import UTC, datetime
from pathlib import Path


def commit_of_checkout() -> str:
    # `-dirty`: with changes that no commit holds.
    command = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(command, cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return ended.stdout.strip() or "unknown"


def day_and_commit() -> str:
    return f"{datetime.now(UTC).date()}, commit {commit_of_checkout()}"
