"""Carries ports from one address to another, until it is killed: `python -m tests.spark.relay FROM TO PORT…`."""

import asyncio
import contextlib
import sys
from collections.abc import Sequence

_CHUNK = 64 << 10


async def relay(listens_at: str, leads_to: str, ports: Sequence[int]) -> None:
    async with contextlib.AsyncExitStack() as stack:
        for port in ports:
            await stack.enter_async_context(await _carried(listens_at, leads_to, port))
        print("carried", flush=True)  # noqa: T201 - its starter waits for it
        await asyncio.Event().wait()


async def _carried(listens_at: str, leads_to: str, port: int) -> asyncio.Server:
    async def carry(heard: asyncio.StreamReader, answers: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError), contextlib.closing(answers):
            answered, said = await asyncio.open_connection(leads_to, port)
            with contextlib.closing(said):
                await asyncio.gather(_pass_on(heard, said), _pass_on(answered, answers))

    return await asyncio.start_server(carry, listens_at, port)


async def _pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while chunk := await source.read(_CHUNK):
        sink.write(chunk)
        await sink.drain()
    sink.write_eof()


if __name__ == "__main__":
    asyncio.run(relay(sys.argv[1], sys.argv[2], [int(port) for port in sys.argv[3:]]))
