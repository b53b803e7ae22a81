"""The loads: each runs a tool or a client of ours in a process of its own and returns what it measured.

Rates are in messages, or requests, per second.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.bench import RATE, Bench, MeasurementError
from benchmarks.servers import TOPIC, Server
from benchmarks.tool_output import h2load_rate, redis_benchmark_rate

#: What a message takes of the processors' time in the server.
CPU = "server CPU µs/message"


def resp(  # noqa: PLR0913  # one argument for each option of redis-benchmark
    bench: Bench,
    server: Server,
    words: list[str],
    *,
    count: int,
    payload: bytes,
    pipeline: int,
    connections: int,
    spread: int = 10_000,
) -> float:
    """Send one command repeatedly with redis-benchmark; the payload is its last word.

    In place of `__rand_int__` it puts one of `spread` numbers.
    """
    port = str(server.ports["resp"])
    # Where its last run goes beyond the count, it may say that all clients are gone, and fail.
    count = -(-count // pipeline) * pipeline
    numbers = ["-r", str(spread)] if any("__rand_int__" in word for word in [*words, payload.decode()]) else []
    options = ["-p", port, "-c", str(connections), "-P", str(pipeline), "-n", str(count), *numbers, "--csv"]
    return redis_benchmark_rate(bench.run(["redis-benchmark", *options, "-x", *words], f"-p {port}", stdin=payload))


def publish(
    bench: Bench, server: Server, dialect: str, *, count: int, payload: bytes, pipeline: int, connections: int
) -> float:
    """Publish to NATS or beanstalkd in the same way with a client of ours."""
    amounts = [f"--count={count}", f"--bytes={len(payload)}", f"--pipeline={pipeline}", f"--connections={connections}"]
    return client(bench, server, "publish", dialect, *amounts)["rate"]


def consume(bench: Bench, server: Server, consumer: str, *, count: int, **options: int | str) -> dict[str, float]:
    """Consume messages that are there; return the rate and the server's CPU time for each, in microseconds."""
    flags = [f"--{name}={value}" for name, value in options.items()]
    before = server.cpu_seconds()
    rate = client(bench, server, "consume", consumer, f"--count={count}", *flags)["rate"]
    return {RATE: rate, CPU: (server.cpu_seconds() - before) / count * 1e6}


def client(bench: Bench, server: Server, module: str, *options: str) -> dict[str, float]:
    """Run a client of ours against the first port of a server and return the object that it prints."""
    command = [sys.executable, "-m", f"benchmarks.clients.{module}", *options, f"--port={server.port}"]
    answer: dict[str, float] = json.loads(bench.run(command, command[-1]))
    return answer


def http_publish(bench: Bench, server: Server, path: str, *, count: int, connections: int, streams: int) -> float:
    """Send POST requests with 10 bytes each over HTTP/2 with h2load."""
    address = f"127.0.0.1:{server.ports['https']}"
    with tempfile.NamedTemporaryFile() as body:
        body.write(b"x" * 10)
        body.flush()
        options = ["-n", str(count), "-c", str(connections), "-m", str(streams), "-d", body.name]
        output = bench.run(["h2load", *options, f"https://{address}{path}"], address, body.name)
    return h2load_rate(output, count)


def json_lines(bench: Bench, server: Server, *, count: int) -> float:
    """Publish many messages in one request of JSON lines with curl; every line must be answered with an id."""
    address = f"localhost:{server.ports['https']}"
    with tempfile.TemporaryDirectory() as folder:
        lines, answers = Path(folder, "lines"), Path(folder, "answers")
        lines.write_text('"xxxxxxxxxx"\n' * count)
        options = ["-sS", "--http2", "--cacert", str(server.ca), "-o", str(answers), "-w", "%{time_total}"]
        header = ["-X", "POST", "-H", "content-type: application/x-ndjson"]
        url, private = f"https://{address}/publish/{TOPIC}", (str(server.ca.parent), folder, address)
        seconds = float(bench.run(["curl", *options, *header, "-T", str(lines), url], *private))
        ids = answers.read_bytes().count(b'{"id":')
    if ids != count:
        raise MeasurementError(f"{count} lines sent, {ids} ids came back")
    return count / seconds


def duplex(bench: Bench, server: Server, *, count: int, prefetch: int) -> dict[str, float]:
    """Consume messages that are there over one stream of HTTP/2."""
    port = f"--port={server.ports['https']}"
    options = [port, f"--topic={TOPIC}", f"--ca={server.ca}", f"--count={count}", f"--prefetch={prefetch}"]
    command = [sys.executable, "-m", "benchmarks.clients.duplex", *options]
    before = server.cpu_seconds()
    rate = json.loads(bench.run(command, port, str(server.ca.parent)))["rate"]
    return {RATE: rate, CPU: (server.cpu_seconds() - before) / count * 1e6}


@contextmanager
def idle_connections(bench: Bench, server: Server, count: int) -> Iterator[None]:
    """Hold connections open that say nothing."""
    port = f"--port={server.port}"
    command = [sys.executable, "-m", "benchmarks.clients.idle", port, f"--connections={count}"]
    bench.note(command, port)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, **pipes) as process:  # type: ignore[call-overload]  # two pipes, no text
        try:
            if process.stdout.readline() != b"ready\n":
                raise MeasurementError(f"{count} connections could not be opened")
            yield
        finally:
            process.stdin.close()
