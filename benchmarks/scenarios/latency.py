"""The time from publishing a message to its delivery to a consumer that waits."""

from benchmarks import loads
from benchmarks.bench import Bench
from benchmarks.queues import BEANSTALKD_MEMORY, JETSTREAM, MINIQUEUE, REDIS, Queue
from benchmarks.scenario import Contender, Figures, Goal, Scenario, fresh
from benchmarks.scenarios.consume import make_group
from benchmarks.servers import Server

CONSUMERS = 50
PUBLISHERS = 10
#: At how many messages per second, for how many seconds.
RATES = {1_000: 8.0, 20_000: 5.0}
ONE_BY_ONE = "miniqueue, SUBSCRIBE"
PREFETCH = "miniqueue, PREFETCH 100"
REDIS_ONE_BY_ONE = "Redis, AOF always, COUNT 1"
REDIS_BATCHES = "Redis, AOF always, COUNT 100"


def _waiting(queue: Queue, consumer: str, rate: int, name: str, batch: int = 1) -> Contender:
    def load(bench: Bench, server: Server) -> Figures:
        make_group(queue, server)
        seconds = max(1.0, RATES[rate] * min(1.0, bench.seconds))
        options = {"rate": rate, "seconds": seconds, "batch": batch, "consumers": CONSUMERS, "publishers": PUBLISHERS}
        flags = [f"--{key}={value}" for key, value in options.items()]
        answer = loads.client(bench, server, "latency", queue.dialect, consumer, *flags)
        return {"p50 ms": answer["p50"], "p99 ms": answer["p99"], "p99.9 ms": answer["p99.9"]}

    return fresh(queue, load, name)


def _contenders(rate: int) -> tuple[Contender, ...]:
    return (
        _waiting(MINIQUEUE, "subscribe", rate, ONE_BY_ONE),
        _waiting(MINIQUEUE, "prefetch-eager", rate, PREFETCH, 100),
        _waiting(REDIS, "redis", rate, REDIS_ONE_BY_ONE),
        _waiting(REDIS, "redis", rate, REDIS_BATCHES, 100),
        _waiting(JETSTREAM, "nats", rate, JETSTREAM.name),
        _waiting(BEANSTALKD_MEMORY, "beanstalk", rate, BEANSTALKD_MEMORY.name),
    )


SCENARIOS = tuple(
    Scenario(
        "Latency",
        f"publish to delivery at {rate:,} messages/s, {CONSUMERS} consumers waiting",
        _contenders(rate),
        (
            Goal("p99 ms", ONE_BY_ONE, "at most", 1.5, REDIS_ONE_BY_ONE),
            Goal("p99 ms", PREFETCH, "at most", 1.5, REDIS_BATCHES),
        )
        if rate == 20_000
        else (),
        is_quick=rate == 20_000,
        note="beanstalkd -f 0 takes no part: with an fsync for each put and each delete it does not keep up with "
        "20,000 messages/s.",
    )
    for rate in RATES
)
