"""What the versions of a log say about who wrote them, and whether they change rows."""

from collections.abc import Iterable, Sequence

from seamline.domain.ledger import StreamId
from seamline.sinks.delta.state import Action, TableState, now_ms


def application(stream: StreamId) -> str:
    """By which the log of a table knows a stream; the version of its transactions is the stream's epoch."""
    return f"seamline {stream}"


def transaction(stream: StreamId, epoch: int, operation: str) -> list[Action]:
    """What each version of a stream begins with."""
    moment = now_ms()
    parameters = {"stream": str(stream), "epoch": str(epoch)}
    said = {
        "timestamp": moment,
        "operation": operation,
        "operationParameters": parameters,
        "isBlindAppend": False,
        "engineInfo": "seamline",
    }
    return [
        {"commitInfo": said},
        {"txn": {"appId": application(stream), "version": epoch, "lastUpdated": moment}},
    ]


def epoch_of(state: TableState, stream: StreamId) -> int:
    """The last epoch in which the stream wrote the table; 0 where it never did."""
    return state.transactions.get(application(stream), 0)


def is_of(actions: Iterable[Action], stream: StreamId) -> bool:
    return any(action["txn"]["appId"] == application(stream) for action in actions if "txn" in action)


def changes_rows(actions: Iterable[Action]) -> bool:
    """False of what a compaction does: it says of each file that its rows are those of others."""
    files = (action.get("add") or action.get("remove") for action in actions)
    return any(content.get("dataChange", True) for content in files if content is not None)


def information(actions: Sequence[Action]) -> str:
    """What a version says about itself, in words."""
    said = next((action["commitInfo"] for action in actions if "commitInfo" in action), {})
    return str(said.get("operation", "change"))
