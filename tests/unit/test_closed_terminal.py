"""A command that takes long goes on when its terminal is closed."""

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

from tests.waiting import wait_until

COMMAND = """
import sys, threading
from pathlib import Path
from seamline.stack.closed_terminal import outlives_its_terminal
log, never = Path(sys.argv[1]), threading.Event()
with outlives_its_terminal(log):
    print("begun", flush=True)
    while not log.exists():
        never.wait(0.02)
    print("gone on", flush=True)
"""


def take_the_terminal() -> None:
    # Under `nohup` these tests ignore it, and what they start would, too.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.close(os.open(os.ttyname(0), os.O_RDWR))


def test_what_is_written_after_the_terminal_is_gone_is_in_the_log(tmp_path: Path) -> None:
    log = tmp_path / "logs" / "demo.log"
    mine, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", COMMAND, str(log)], stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=take_the_terminal,
    ) as process:  # fmt: skip
        os.close(theirs)
        assert os.read(mine, 100).startswith(b"begun")
        os.close(mine)
        wait_until(lambda: log.exists() and "gone on" in log.read_text(), timeout_s=20, what="the command to go on")
        assert process.wait(20) == 0
