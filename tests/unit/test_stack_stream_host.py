"""Which stream hosts the local stack's own one takes the place of."""

from pathlib import Path

from seamline import settings
from seamline.stack import programs, stream_host
from seamline.stack.layout import Layout
from seamline.stack.leftovers import StackProcess


def test_only_a_host_that_airflow_has_started_for_the_same_pool_gives_way(tmp_path: Path) -> None:
    layout = Layout(settings.load())
    script, *pool = programs.stream_host_arguments(layout)
    own = " ".join(["python", script, *pool])

    def process(pid: int, command: str, *, is_detached: bool = True) -> StackProcess:
        return StackProcess(pid, "airflow-scheduler", is_detached, command)

    found = [
        process(1, own),
        process(2, f"sh -c wrapper seamline-driver {tmp_path} {own}"),
        process(3, own, is_detached=False),
        process(4, own.replace("default", "heavy")),
        process(5, f"{own}_of_another"),
        process(6, "python -m something_else"),
    ]
    assert [one.pid for one in stream_host.of_airflow(layout, found)] == [1, 2]
