"""What is asked of Airflow's REST API: as much as there is, and a file of DAGs before its turn."""

import httpx
import pytest

from seamline.adapters.airflow_rest import AirflowRest
from seamline.cli.onboard import DAGS_OF_SYNCS

DAGS = [
    {"dag_id": f"bank_{number}__nightly", "file_token": f"token-of-{file}", "relative_fileloc": file}
    for file, numbers in (("seamline_streams.py", range(150)), (DAGS_OF_SYNCS, range(150, 250)))
    for number in numbers
]


class Server:
    """It gives a hundred entries at once, as Airflow does whatever limit is asked for; or as many as are set."""

    def __init__(self) -> None:
        self.parsed: list[str] = []
        self.page_limit = 100
        self.dags = DAGS

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/auth/token":
            return httpx.Response(201, json={"access_token": "t"})
        if request.method == "PUT":
            self.parsed.append(request.url.path)
            return httpx.Response(409 if len(self.parsed) > 1 else 201, json=None)
        at = int(request.url.params["offset"])
        return httpx.Response(200, json={"dags": self.dags[at : at + self.page_limit], "total_entries": len(DAGS)})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    client = httpx.Client(base_url="http://airflow", transport=httpx.MockTransport(server))
    monkeypatch.setattr(httpx, "Client", lambda **_: client)
    return server


def test_every_dag_is_known_however_many_there_are(server: Server) -> None:
    """Behind the first hundred `onboard` and `exec airflow dags trigger` took each for one that is not there."""
    with AirflowRest("http://airflow", "operator", "p") as airflow:
        assert airflow.dag_ids() == {dag["dag_id"] for dag in DAGS}


def test_every_dag_is_known_where_airflow_is_set_to_give_fewer_at_once(server: Server) -> None:
    """`[api] maximum_page_limit = 50`: every second fifty was left out."""
    server.page_limit = 50
    with AirflowRest("http://airflow", "operator", "p") as airflow:
        assert airflow.dag_ids() == {dag["dag_id"] for dag in DAGS}


def test_entries_that_are_gone_before_their_page_is_asked_for_end_the_list(server: Server) -> None:
    server.dags = DAGS[:120]
    with AirflowRest("http://airflow", "operator", "p") as airflow:
        assert len(airflow.dag_ids()) == 120


def test_a_file_is_parsed_again_by_a_dag_of_it_and_a_request_that_waits_is_enough(server: Server) -> None:
    with AirflowRest("http://airflow", "operator", "p") as airflow:
        airflow.parse_again(DAGS_OF_SYNCS)
        airflow.parse_again(DAGS_OF_SYNCS)
        airflow.parse_again("unknown.py")
    assert server.parsed == ["/api/v2/parseDagFile/token-of-syncs.py"] * 2
