"""Open connections and leave them alone until the standard input ends."""

import argparse
import asyncio
import sys

import uvloop


async def hold(port: int, connections: int) -> None:
    """Open connections, say `ready`, and wait."""
    loop = asyncio.get_running_loop()
    for _ in range(connections):
        await loop.create_connection(asyncio.Protocol, "127.0.0.1", port)
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--connections", type=int, required=True)
    args = parser.parse_args()
    uvloop.run(hold(args.port, args.connections))


if __name__ == "__main__":
    main()
