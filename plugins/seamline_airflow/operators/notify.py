"""The task that sends mails about what waits for people; it exists where a sync declares `reconcile.notify`."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import BaseOperator

from seamline.domain.notice import Mail
from seamline_airflow.errors import task_errors

# Airflow's own name for its mail server.
SMTP_CONNECTION = "smtp_default"


class NotifyOperator(BaseOperator):
    """Send what is due, each event once to each address: breaks that were found, cuts that wait for a person, verdicts
    that are late, breaks that are escalated, alarms that open and end; and a ping to whoever expects one. Counts and
    links, never data. Red where a mail was not sent: it is tried again after 2 minutes, 4, and so on up to an hour, for
    7 days, and the page shows it."""

    def execute(self, context: Any) -> int:  # noqa: ARG002
        from seamline_airflow import notices

        with task_errors():
            return notices.notify(datetime.now(UTC), send)


def send(recipient: str, mail: Mail) -> None:
    """By Airflow's connection `smtp_default`: its server, login, sender and kind of encryption; or to the URL of a
    connection."""
    if ":" in recipient:
        from seamline_airflow.posting import post

        return post(recipient, mail)
    from airflow.providers.smtp.hooks.smtp import SmtpHook

    headers = {"Message-ID": mail.message_id, "Auto-Submitted": "auto-generated"}
    with SmtpHook(SMTP_CONNECTION) as hook:
        hook.send_email_smtp(to=[recipient], subject=mail.subject, html_content=mail.html, custom_headers=headers)
