"""The loads: each runs a tool or a client in a process of its own and returns a rate in operations per second."""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

PAYLOAD = "x" * 10


def resp_benchmark(port: int, words: list[str], *, count: int, pipeline: int, connections: int = 50) -> float:
    """Send one command over and over with redis-benchmark."""
    options = ["-p", str(port), "-c", str(connections), "-P", str(pipeline), "-n", str(count), "--csv"]
    output = _run(["redis-benchmark", *options, *words])
    last = output.strip().splitlines()[-1]
    return float(last.split('","')[1].strip('"'))


def stream(port: int, topic: str, word: str, *, count: int, connections: int = 50) -> float:
    """Settle messages of a SUBSCRIBE stream, one at a time on every connection."""
    options = [f"--port={port}", f"--topic={topic}", f"--word={word}", f"--count={count}"]
    return _python("benchmarks.stream_client", *options, f"--connections={connections}")["rate"]


def http_publish(port: int, path: str, *, count: int, connections: int = 4, streams: int = 10) -> float:
    """Send POST requests over HTTP/2 with h2load; every one must succeed."""
    with tempfile.NamedTemporaryFile() as body:
        body.write(PAYLOAD.encode())
        body.flush()
        options = ["-n", str(count), "-c", str(connections), "-m", str(streams), "-d", body.name]
        output = _run(["h2load", *options, f"https://127.0.0.1:{port}{path}"])
    if f"{count} succeeded" not in output:
        raise SystemExit(f"h2load reported failures:\n{output}")
    return float(_found(r"finished in .*?, ([\d.]+) req/s", output))


def json_lines(port: int, ca: Path, topic: str, *, count: int) -> float:
    """Publish many messages in one request of JSON lines with curl; every line must be answered with an id."""
    with tempfile.TemporaryDirectory() as folder:
        lines, answers = Path(folder, "lines"), Path(folder, "answers")
        lines.write_text(f'"{PAYLOAD}"\n' * count)
        url = f"https://localhost:{port}/publish/{topic}"
        options = ["-sS", "--http2", "--cacert", str(ca), "-o", str(answers), "-w", "%{time_total}", "-X", "POST"]
        header = ["-H", "content-type: application/x-ndjson"]
        seconds = float(_run(["curl", *options, *header, "-T", str(lines), url]))
        ids = answers.read_bytes().count(b'{"id":')
    if ids != count:
        raise SystemExit(f"{count} lines sent, {ids} ids came back")
    return count / seconds


def _python(module: str, *options: str) -> dict[str, float]:
    answer: dict[str, float] = json.loads(_run([sys.executable, "-m", module, *options]))
    return answer


def _run(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _found(pattern: str, text: str) -> str:
    match = re.search(pattern, text)
    if match is None:
        raise SystemExit(f"no {pattern!r} in:\n{text}")
    return match[1]
