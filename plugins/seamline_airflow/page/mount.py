"""The page as Airflow mounts it. Every Airflow process loads plugins; only the API server ever serves the page, and
only it pays the seconds that importing FastAPI's and Airflow's security modules costs."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

# Below Airflow's own address.
URL_PREFIX = "/seamline"

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


async def page(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve a request. A page that cannot be imported answers with an error, never without its login."""
    # The first look imports it, for seconds on a busy machine: meanwhile the API server goes on answering tasks.
    app = await asyncio.to_thread(_app)
    await app(scope, receive, send)


def _app() -> Any:
    from seamline_airflow.page.app import app

    return app
