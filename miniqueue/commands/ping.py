"""`miniqueue ping`: checks that a broker replies, and how fast."""

import time

from miniqueue.commands.shell import flags
from miniqueue.commands.shell.connecting import BrokerClient, connected
from miniqueue.commands.shell.output import Output, with_output
from miniqueue.commands.shell.values import COUNT, DURATION


@flags.command()
@flags.flag("--count", type=COUNT, default=1, show_default=True, help="Number of times to ask.")
@flags.flag("--interval", type=DURATION, default=1.0, help="Time between two.  [default: 1s]")
@with_output
@connected
def command(client: BrokerClient, count: int, interval: float, output: Output) -> None:
    """Check that the broker replies, that the user and the secret are right, and measure how long a reply takes.

    The first time includes the connection: TLS, user, and secret.
    """
    for number in range(count):
        if number:
            time.sleep(interval)
        begun_at = time.perf_counter()
        client.ping()
        seconds = time.perf_counter() - begun_at
        output.done(
            f"{client.address} replied in {seconds * 1000:.2f} ms",
            {"url": str(client.address), "seconds": round(seconds, 6)},
        )
