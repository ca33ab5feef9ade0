"""Linters, types and import contracts pass, and the contracts catch what they are there for."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from seamline import settings

BIN = Path(sys.executable).parent
PACKAGES = ("include/seamline", "plugins/seamline_airflow", "spark_jobs/seamline_spark")


def run(*command: str, at: Path, path: str = "", columns: int = 80) -> subprocess.CompletedProcess[str]:
    environment = {**settings.process_environment(), "PYTHONPATH": path, "COLUMNS": str(columns)}
    return subprocess.run(
        [str(BIN / command[0]), *command[1:]], cwd=at, env=environment, capture_output=True, text=True, check=False
    )


GATES = {
    "ruff": ("ruff", "check", "--output-format=concise", "."),
    "format": ("ruff", "format", "--check", "--output-format=concise", "."),
    "types": ("mypy",),
    "types of the benches": ("mypy", "bench"),
    "spelling": ("codespell",),
    "imports": ("lint-imports",),
}


@pytest.mark.parametrize("gate", GATES)
def test_the_gate_is_passed(checkout: Path, gate: str) -> None:
    ended = run(*GATES[gate], at=checkout)
    assert ended.returncode == 0, ended.stdout + ended.stderr


# What must not be imported, by the contract that catches it: where it is planted, and the line.
FORBIDDEN = {
    "domain from ports": ("include/seamline/domain/log.py", "import seamline.ports", "layered"),
    "ports from spec": ("include/seamline/ports/__init__.py", "import seamline.spec.load", "layered"),
    "spec from plan": ("include/seamline/spec/load.py", "import seamline.plan.model", "layered"),
    "sync from adapters": ("include/seamline/sync/barrier.py", "import seamline.adapters.connections", "layered"),
    "adapters from sync": ("include/seamline/adapters/connections.py", "import seamline.sync.barrier", "layered"),
    "sync from kinds": ("include/seamline/sync/barrier.py", "import seamline.kinds.found", "no kind and no adapter"),
    "a source from another": (
        "include/seamline/sources/postgres/kind.py",
        "import seamline.sources.mariadb.kind",
        "A kind knows no other kind",
    ),
    "a sink from a source": (
        "include/seamline/sinks/postgres/kind.py",
        "import seamline.sources.postgres.kind",
        "A kind knows no other kind",
    ),
    "what sinks share from one of them": (
        "include/seamline/sinks/relational/sink.py",
        "import seamline.sinks.mariadb.kind",
        "A kind knows no other kind",
    ),
    "what lakes share from one of them": (
        "include/seamline/sinks/lake/store.py",
        "import seamline.sinks.iceberg.kind",
        "A kind knows no other kind",
    ),
    "an adapter from a kind": (
        "include/seamline/adapters/connections.py",
        "import seamline.sinks.postgres.kind",
        "layered",
    ),
    "adapters from cli": ("include/seamline/adapters/connections.py", "import seamline.cli.main", "layered"),
    "core from Airflow": ("include/seamline/adapters/connections.py", "import airflow.sdk", "neither Airflow"),
    "core from Spark": ("include/seamline/sync/barrier.py", "import pyspark", "neither Airflow"),
    "use case from a client": ("include/seamline/sync/barrier.py", "import psycopg", "Use cases know no client"),
    "use case from pydantic": ("include/seamline/sync/barrier.py", "import pydantic", "Use cases know no client"),
    "use case from compile": ("include/seamline/sync/barrier.py", "import seamline.plan.compile", "Only compile"),
    "plan from spec": ("include/seamline/plan/stages.py", "import seamline.spec.load", "Only compile"),
    "a client in spec": ("include/seamline/spec/load.py", "import pymysql", "Declarations are read without"),
    "Airflow's side from Spark": ("plugins/seamline_airflow/errors.py", "import pyspark", "imports Spark"),
    "Airflow's side from jobs": ("plugins/seamline_airflow/errors.py", "import seamline_spark", "imports Spark"),
    "Spark's side from Airflow": ("spark_jobs/seamline_spark/__init__.py", "import airflow.sdk", "imports Airflow"),
    "Spark's side from spec": (
        "spark_jobs/seamline_spark/__init__.py", "import seamline.spec.faults", "imports Airflow",
    ),
    "Spark's side from a kind": (
        "spark_jobs/seamline_spark/__init__.py", "import seamline.sinks.postgres.derived", "imports Airflow",
    ),
}  # fmt: skip


def planted_in(file: str) -> str:
    """The module of a file, as a contract names it."""
    (package,) = (name for name in PACKAGES if file.startswith(f"{name}/"))
    path = Path(file).relative_to(Path(package).parent).with_suffix("")
    return ".".join(path.parts).removesuffix(".__init__")


@pytest.fixture(scope="module")
def broken(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is said of each broken contract, by its name, in a copy that has every import which must not be."""
    copy = tmp_path_factory.mktemp("copy")
    for package in PACKAGES:
        shutil.copytree(checkout / package, copy / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(checkout / "pyproject.toml", copy)
    for file, line, _ in FORBIDDEN.values():
        text = (copy / file).read_text(encoding="utf-8")
        (copy / file).write_text(f"{line}\n{text}", encoding="utf-8")
    path = ":".join(str((copy / package).parent) for package in PACKAGES)
    ended = run("lint-imports", "--no-cache", at=copy, path=path, columns=300)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    said = ended.stdout.partition("Broken contracts")[2]
    parts = re.split(r"^(.+)\n-{5,}\n", said, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("what", FORBIDDEN)
def test_a_planted_import_breaks_its_contract(broken: dict[str, str], what: str) -> None:
    file, line, contract = FORBIDDEN[what]
    (said,) = (text for name, text in broken.items() if contract in name)
    imported = line.removeprefix("import ")
    # A package from outside is one module, whatever is imported of it.
    named = imported if imported.startswith("seamline") else imported.partition(".")[0]
    assert f"{planted_in(file)} -> {named} (l." in said, said
