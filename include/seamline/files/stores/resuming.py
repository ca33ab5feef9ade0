"""An upload whose connection breaks goes on behind what its server has of it, by a new connection."""

from collections.abc import Callable

from seamline.files.stores.store import Sendable

_ATTEMPTS = 3
# What a server had just taken when the connection broke is sent again.
_AGAIN_BYTES = 1 << 20


def sent_whole(
    content: Sendable,
    send: Callable[[int], None],
    *,
    there: Callable[[], int | None],
    broken: tuple[type[BaseException], ...],
) -> None:
    """Send all of a content, with as little twice as can be.

    `send(offset)`: what the content still has, to that offset of the file. `there()`: the bytes of the file that the
    server has, asked by a new connection; None where it has none. `broken`: errors of a connection; the last one leaves
    as it is, and so does an error of `there`. What has come is read back before it counts, so a server that says more
    than it has is found.
    """
    offset = 0
    for left in reversed(range(_ATTEMPTS)):
        try:
            send(offset)
        except broken:
            if not left:
                raise
        else:
            return
        offset = max(0, (there() or 0) - _AGAIN_BYTES)
        content.seek(offset)
