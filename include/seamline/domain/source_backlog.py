"""What a source's server keeps of its own log for a capture that has not read it yet."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SourceBacklog:
    """`room_bytes`: so much more, and the server lets go of it by its own limit. `expires_in_s`: so long, and the
    server deletes what comes next for the capture. Either is None where the server has no such limit. `is_lost`: the
    server keeps nothing for the capture, or no longer all that it needs. `is_held`: the server keeps it because the
    capture has not read it, as for a slot; a binlog is kept by its age, whoever reads it. `never_while`: why the server
    deletes nothing of it by itself now, "" where it does."""

    size_bytes: int = 0
    room_bytes: int | None = None
    expires_in_s: float | None = None
    is_lost: bool = False
    is_held: bool = True
    never_while: str = ""
