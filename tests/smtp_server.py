"""A mail server in this process, on a port of its own: it takes mails as servers do, or refuses addresses."""

import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from email.message import EmailMessage, Message
from email.policy import default
from typing import Any, cast


class MailServer(socketserver.ThreadingTCPServer):
    """`refused`: addresses that it does not take. `mails`: each with the address that it was for."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Session)
        self.mails: list[tuple[str, Message]] = []
        self.refused: set[str] = set()

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def texts(self) -> str:
        """All that was sent, headers and bodies, as a reader sees them."""
        return "\n".join(f"{mail.as_string()}\n{body(mail)}" for _, mail in self.mails)


def body(mail: Message) -> str:
    part = cast(EmailMessage, mail).get_body(("html",))
    return str(part.get_content()) if part else ""


class _Session(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 here")
        recipients: list[str] = []
        while line := self.rfile.readline():
            word, _, rest = line.decode().strip().partition(" ")
            match word.upper():
                case "RCPT":
                    address = rest.partition("<")[2].partition(">")[0]
                    if address in self.server.refused:
                        self._say("550 no such mailbox")
                        continue
                    recipients.append(address)
                    self._say("250 ok")
                case "DATA":
                    self._say("354 go on")
                    mail: Any = message_from_bytes(self._data(), policy=default)
                    self.server.mails += [(one, mail) for one in recipients]
                    recipients = []
                    self._say("250 taken")
                case "QUIT":
                    self._say("221 bye")
                    return
                case _:
                    self._say("250 ok")

    def _data(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b".") if line.startswith(b"..") else line)
        return b"".join(lines)

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def mail_server() -> Iterator[MailServer]:
    with MailServer() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
