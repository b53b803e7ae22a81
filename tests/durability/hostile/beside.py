"""One hostile client at a time, beside innocent ones: `python -m tests.durability.hostile.beside [NAME...]`.

Calm and hostile seconds alternate, so that what else the machine does falls on both. Prints a row for each client, in
the form of the table in docs/security.md.
"""

import asyncio
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import NamedTuple

from tests.durability.hostile.clients import HOSTILE, at_work
from tests.durability.hostile.innocent import Innocent, Served
from tests.durability.hostile.victim import MIB, Victim, filled, quantiles_of_lag, victim
from tests.durability.load.measuring import cpu_seconds, own_bytes

ROUNDS = 8
PHASE_SECONDS = 2.0
#: For a hostile client to begin.
START_SECONDS = 1.0
#: The columns of the table.
HEAD = (
    "| hostile client | lag, p99.9 | pipelined rate | p99 in the calm | p99 beside it | memory | CPU of the broker |\n"
    "|---|---|---|---|---|---|---|"
)


class Figures(NamedTuple):
    """What was measured of one hostile client.

    Attributes:
      lag_seconds: how late timers of the broker's loop fired, at the 99.9th percentile of the last minute.
      rate_share: the pipelined rate of the innocent beside the hostile client, as a share of that in the calm.
      calm_p99_seconds: how long one publish took in the calm.
      p99_seconds: how long one publish took beside the hostile client.
      peak_bytes: how much memory of its own the broker had.
      cpu_share: the processor time of the broker beside the hostile client, as a share of one processor.
    """

    name: str
    lag_seconds: float
    rate_share: float
    calm_p99_seconds: float
    p99_seconds: float
    peak_bytes: int
    cpu_share: float

    def row(self) -> str:
        """Return the row of a table."""
        cells = (
            self.name.replace("_", " "),
            f"{self.lag_seconds * 1e3:.0f} ms",
            f"{self.rate_share:.0%}",
            f"{self.calm_p99_seconds * 1e3:.1f} ms",
            f"{self.p99_seconds * 1e3:.1f} ms",
            f"{self.peak_bytes / MIB:.0f} MiB",
            f"{self.cpu_share:.0%}",
        )
        return f"| {' | '.join(cells)} |"


def measure(name: str, found: Victim, rounds: int = ROUNDS, phase_seconds: float = PHASE_SECONDS) -> Figures:
    """Measure innocent clients in the calm and beside a hostile one, alternating."""
    pid, calm, beside, shares = found.process.process.pid, list[Served](), list[Served](), list[float]()
    peak_bytes = own_bytes(pid)
    with asyncio.Runner() as runner:
        innocent = runner.run(Innocent.sign_in(found.process.resp_port, found.innocent_token))
        for _ in range(rounds):
            calm.append(runner.run(innocent.work_for(phase_seconds)))
            with at_work(name, found.target):
                runner.run(innocent.work_for(START_SECONDS))
                begun, used_seconds = time.monotonic(), cpu_seconds(pid)
                beside.append(runner.run(innocent.work_for(phase_seconds)))
                shares.append((cpu_seconds(pid) - used_seconds) / (time.monotonic() - begun))
                peak_bytes = max(peak_bytes, own_bytes(pid))
        innocent.leave()
    return Figures(
        name,
        lag_seconds=quantiles_of_lag(found.metrics())["0.999"],
        rate_share=median(served.rate for served in beside) / median(served.rate for served in calm),
        calm_p99_seconds=_p99(calm),
        p99_seconds=_p99(beside),
        peak_bytes=peak_bytes,
        cpu_share=median(shares),
    )


def _p99(all_served: Sequence[Served]) -> float:
    took_seconds = sorted(seconds for served in all_served for seconds in served.took_seconds)
    return took_seconds[len(took_seconds) * 99 // 100]


def main(names: Sequence[str]) -> None:
    """Measure each of these clients on a broker of its own; all of them by default."""
    from tests.durability.soak import make_trust  # noqa: PLC0415 - which imports this room

    print(HEAD, flush=True)
    for name in names or list(HOSTILE):
        with tempfile.TemporaryDirectory(prefix="miniqueue-hostile-") as place:
            directory = Path(place)
            trust = make_trust(directory)
            with victim(filled(directory, trust), trust, "-sync", "never") as found:
                print(measure(name, found).row(), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
