"""Notices to a URL, which may be a secret: a connection of Airflow's has it."""

import httpx
from airflow.sdk import BaseHook, Connection

from seamline.domain.notice import Mail

_TIMEOUT_S = 20.0


def post(recipient: str, mail: Mail) -> None:
    """`recipient`: `webhook:<connection id>` or `slack:<connection id>`.

    OSError: it was not taken. Neither the URL nor what it answers is repeated, for the page shows why.
    """
    channel, _, connection_id = recipient.partition(":")
    body = _for_slack(mail) if channel == "slack" else _for_anybody(mail)
    connection = BaseHook.get_connection(connection_id)
    headers = {"Authorization": f"Bearer {connection.password}"} if _has_token(channel, connection) else {}
    try:
        answer = httpx.post(url_of(channel, connection), json=body, headers=headers, timeout=_TIMEOUT_S)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise OSError(f"no answer ({type(exc).__name__})") from None
    if not answer.is_success:
        raise OSError(f"status {answer.status_code}")


def url_of(channel: str, connection: Connection) -> str:
    """Host and port of the connection, the host with its scheme or https; then Slack's token, which is the password, or
    `path` of the extra."""
    host = (connection.host or "").rstrip("/")
    scheme, _, rest = host.rpartition("://")
    port = f":{connection.port}" if connection.port else ""
    path = connection.password if channel == "slack" else connection.extra_dejson.get("path", "")
    return f"{scheme or connection.schema or 'https'}://{rest}{port}/{str(path or '').lstrip('/')}"


def _has_token(channel: str, connection: Connection) -> bool:
    return channel != "slack" and bool(connection.password)


def _for_anybody(mail: Mail) -> dict[str, object]:
    notices = [{"what": what, "link": link} for what, link in mail.lines]
    return {"id": mail.message_id, "subject": mail.subject, "notices": notices}


def _for_slack(mail: Mail) -> dict[str, object]:
    return {"text": "\n".join([f"*{mail.subject}*", *(f"• <{link}|{what}>" for what, link in mail.lines)])}
