"""A worker process of a local cluster: `python -m gridstride.cluster.process ADDRESS`. It ends when its standard input does."""

from __future__ import annotations

import asyncio
import os
import sys
import threading


async def _serve(address: str) -> None:
    from distributed import Worker

    async with Worker(address, nthreads=1, memory_limit=0, host="127.0.0.1", dashboard_address="127.0.0.1:0") as worker:
        await worker.finished()


def _end_with_input() -> None:
    """Files are written whole or not at all, so nothing needs to be brought to an end."""
    while sys.stdin.buffer.read(1 << 16):
        pass
    os._exit(0)


if __name__ == "__main__":
    threading.Thread(target=_end_with_input, daemon=True).start()
    asyncio.run(_serve(sys.argv[1]))
