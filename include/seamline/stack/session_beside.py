"""Another session of tests at the same time: another process, with its own data, ports and servers."""

import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from types import TracebackType

from seamline.stack.test_session import NAMED_FAILURE, Layer, Outcome

_LAYER_LINE = re.compile(r"^=+ (?P<layer>\w+): (?P<said>.*?) =+$")


class SessionBeside:
    """Use as a context manager: it runs from the beginning, and whatever ends the block early ends it too.

    What it says is written as it comes, each line behind its number and a bar.
    """

    def __init__(self, layers: Sequence[Layer], *, number: int, pytest_arguments: str) -> None:
        self._layers = layers
        self._number = number
        self._command = [sys.executable, "-m", "seamline.cli.main", "test", *(layer.name for layer in layers)]
        self._command += [f"--pytest={pytest_arguments}"] if pytest_arguments else []
        self._process: subprocess.Popen[str] | None = None
        self._said: dict[str, str] = {}
        self._failures: dict[str, list[str]] = {}
        self._reading = threading.Thread(target=self._read)

    def __enter__(self) -> "SessionBeside":
        self._process = subprocess.Popen(
            self._command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        self._reading.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._process is not None
        if self._process.poll() is None:
            # It takes its servers down first.
            self._process.terminate()
        self._reading.join()
        self._process.wait()

    def outcomes(self) -> list[Outcome]:
        """Of each layer, once all have ended. They have passed together, or none of them counts as passed."""
        assert self._process is not None
        self._reading.join()
        code = self._process.wait()
        return [
            Outcome(
                layer.name,
                code == 0,
                self._said.get(layer.name, f"its session ended with exit code {code}"),
                tuple(self._failures.get(layer.name, ())),
            )
            for layer in self._layers
        ]

    def _read(self) -> None:
        assert self._process is not None
        layer = ""
        for line in self._process.stdout or ():
            sys.stdout.write(f"{self._number}| {line}")
            sys.stdout.flush()
            line_of_layer = _LAYER_LINE.match(line.strip())
            if line_of_layer is not None and line_of_layer["layer"] in {layer.name for layer in self._layers}:
                layer = line_of_layer["layer"]
                self._said[layer] = line_of_layer["said"]
            elif layer and NAMED_FAILURE.match(line):
                self._failures.setdefault(layer, []).append(line.rstrip())
