"""A package of somebody else's kind, built and unpacked as it would be installed."""

import subprocess
import sys
import zipfile
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "seamline-memory"


def install(project: Path, into: Path) -> None:
    """Its wheel, built without looking for anything elsewhere, in a folder of packages."""
    built = into / "wheels"
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(built)]
    subprocess.run(command, cwd=project, check=True, capture_output=True)
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(into)
