"""What an application of Spark is given on a cluster, beside what its owner says: our code, and names of our settings.

Only names and places travel: Spark shows its settings in its logs and in its UI. What is secret is read where it is
used, by executors as by every process of Seamline (`adapters/connections.py`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from seamline.cluster.code_archive import code_archive
from seamline.settings import Settings

ARCHIVES = "spark.archives"
EXECUTOR_ENVIRONMENT = "spark.executorEnv."
# How a cluster's manager is given variables of a driver that it runs itself, by the beginning of the master's URL.
_OVERHEAD = "spark.executor.memoryOverhead"
# Of an executor beside its heap: what the JVM itself takes, and Spark's daemon of Python workers.
_OVERHEAD_MB = 512
_DRIVER_ENVIRONMENT = {"yarn": "spark.yarn.appMasterEnv.", "k8s": "spark.kubernetes.driverEnv."}


@dataclass(frozen=True, slots=True)
class Travelling:
    """`archive` is a value of `spark.archives`; `environment` holds variables of every process that Spark starts."""

    archive: str
    environment: Mapping[str, str]


def is_local(master: str) -> bool:
    """Whether driver and tasks share one JVM of this machine."""
    return master == "local" or master.startswith("local[")


def travelling(known: Settings) -> Travelling:
    """The code of this process and the place of its connections file."""
    archive = code_archive(known.home / "code")
    # Python starts in the folder where Spark has unpacked the archive, under the name behind `#`.
    environment = {"PYTHONPATH": archive.stem, "SEAMLINE_CONNECTIONS": str(known.connections)}
    return Travelling(f"{archive.as_uri()}#{archive.stem}", environment)


def for_executors(said: Mapping[str, str], known: Settings, *, task_mb: int) -> dict[str, str]:
    """Settings by which executors run this driver's code with this driver's connection ids; {} where Spark is local.

    `said` is what the application is given already: its archives stay beside ours, everything else that it says wins.
    `task_mb`: what a task takes of memory in processes that are not the JVM.
    """
    if is_local(said.get("spark.master", "")):
        return {}
    overhead = _memory_overhead(said, task_mb)
    if said.get("spark.submit.deployMode") == "cluster":
        # Who submitted a driver that is itself on the cluster has said the rest.
        return overhead
    ours = travelling(known)
    archives = dict.fromkeys([*filter(None, said.get(ARCHIVES, "").split(",")), ours.archive])
    return {ARCHIVES: ",".join(archives), **_variables(EXECUTOR_ENVIRONMENT, ours, said), **overhead}


def _memory_overhead(said: Mapping[str, str], task_mb: int) -> dict[str, str]:
    """YARN and Kubernetes end an executor whose processes outgrow this. A standalone worker counts the heap only."""
    cores = int(said.get("spark.executor.cores") or 1)
    return {_OVERHEAD: said.get(_OVERHEAD) or f"{_OVERHEAD_MB + cores * task_mb}m"}


def for_driver_on_cluster(master: str, ours: Travelling, said: Mapping[str, str]) -> dict[str, str]:
    """Variables of a driver that the cluster's manager runs, and of its executors. The archive is submitted beside."""
    prefixes = [EXECUTOR_ENVIRONMENT, *(name for kind, name in _DRIVER_ENVIRONMENT.items() if master.startswith(kind))]
    return {key: value for prefix in prefixes for key, value in _variables(prefix, ours, said).items()}


def _variables(prefix: str, ours: Travelling, said: Mapping[str, str]) -> dict[str, str]:
    return {f"{prefix}{name}": said.get(f"{prefix}{name}") or value for name, value in ours.environment.items()}
