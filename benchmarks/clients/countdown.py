"""What the connections of a load share: how many messages there still are, and when it began and ended."""

import asyncio
import time

#: Longer than any load takes; then something is stuck.
PATIENCE_SECONDS = 300


class Countdown:
    """Counts messages down to the end of a load; the clock runs from the first."""

    def __init__(self, count: int) -> None:
        self._count = count
        self._began_at = time.perf_counter()
        self._done: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        self.remaining = count

    def take(self, messages: int) -> bool:
        """Note that messages were done; return whether to go on."""
        if self.remaining > 0:
            self.remaining -= messages
            if self.remaining <= 0 and not self._done.done():
                self._done.set_result(time.perf_counter() - self._began_at)
        return self.remaining > 0

    def received(self, payloads: list[bytes]) -> bool:
        """Note that payloads came; return whether to go on."""
        return self.take(len(payloads))

    def fail(self, error: Exception) -> None:
        """End the load with an error."""
        if not self._done.done():
            self._done.set_exception(error)

    async def result(self) -> dict[str, float]:
        """Wait for the end; return the rate in messages per second, and the seconds."""
        seconds = await asyncio.wait_for(self._done, PATIENCE_SECONDS)
        return {"rate": (self._count - self.remaining) / seconds, "seconds": seconds}
