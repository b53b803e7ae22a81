"""How much is done, what is noted, and what becomes of a load that fails."""

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.bench import MAX_RATE, RATE, Bench, MeasurementError, last_line


def test_counts_follow_the_scale_down_to_the_least():
    bench = Bench(Path(), scale=0.05)
    assert bench.count(1_000_000) == 50_000
    assert bench.count(100, least=20) == 20


def test_a_rate_is_measured_for_as_long_as_wanted():
    asked = []

    def load(count: int) -> float:
        asked.append(count)
        return 2_000.0

    assert Bench(Path(), seconds=1.5).rate(load, first=100) == 2_000
    assert asked == [100, 3_000]


def test_what_gets_quicker_as_it_gets_warm_is_measured_for_long_enough():
    asked = []

    def load(count: int) -> float:
        asked.append(count)
        return {50: 100.0, 100: 1_000.0, 1_000: 1_500.0}[count]

    assert Bench(Path()).rate(load, first=50) == 1_500
    assert asked == [50, 100, 1_000]


def test_the_other_figures_are_of_the_load_that_counts():
    def load(count: int) -> dict[str, float]:
        return {RATE: 1_000.0, "server CPU µs/message": 1e6 / count}

    assert Bench(Path()).steady(load, first=50) == {RATE: 1_000.0, "server CPU µs/message": 1_000.0}


def test_a_load_that_takes_long_enough_is_not_repeated():
    asked = []
    assert Bench(Path(), seconds=0.1).rate(lambda count: asked.append(count) or 10.0, first=500) == 10
    assert asked == [500]


def test_a_first_load_too_short_to_be_timed_does_not_make_the_second_endless():
    asked = []
    Bench(Path()).rate(lambda count: asked.append(count) or float("inf"), first=1)
    assert asked == [1, int(MAX_RATE)]


def test_commands_are_noted_without_what_differs_from_run_to_run():
    bench = Bench(Path())
    bench.note([sys.executable, "-m", "benchmarks.clients.consume", "--port=4711"], "--port=4711")
    bench.note(["redis-benchmark", "-p", "4711", "XADD", "t", "*"], "-p 4711", stdin="x" * 10)
    bench.note(["curl", "-T", "a1/lines", "https://localhost:4711/"], "a1", "localhost:4711")
    assert list(bench.commands.values()) == [
        "python -m benchmarks.clients.consume --port=…",
        "printf %s xxxxxxxxxx | redis-benchmark -p … XADD t '*'",
        "curl -T …/lines https://localhost:…/",
    ]


def test_numbers_that_look_like_a_port_stay():
    bench = Bench(Path())
    bench.note(["redis-benchmark", "-p", "4711", "-n", "4711", "-r", "14711"], "-p 4711")
    bench.note(["h2load", "-n", "47110", "http://127.0.0.1:4711/"], "4711")
    assert list(bench.commands.values()) == [
        "redis-benchmark -p … -n 4711 -r 14711",
        "h2load -n 47110 http://127.0.0.1:…/",
    ]


@pytest.mark.parametrize("text", ["__rand_int__", '{"job": "load", "key": "it\'s"}', "x" * 65536])
def test_what_a_command_reads_is_printed_by_what_stands_before_it(text):
    bench = Bench(Path())
    bench.note(["cat"], stdin=text)
    (command,) = bench.commands.values()
    assert len(command) < 80
    assert subprocess.run(["bash", "-c", command], capture_output=True, check=True).stdout == text.encode()


def test_the_latest_command_of_a_program_is_kept():
    bench = Bench(Path())
    bench.note(["h2load", "-n", "500"])
    bench.note(["h2load", "-n", "4500"])
    assert list(bench.commands.values()) == ["h2load -n 4500"]


def test_a_load_that_fails_says_why():
    failing = [sys.executable, "-c", "raise RuntimeError('no such command')"]
    with pytest.raises(MeasurementError, match=r"^RuntimeError: no such command$"):
        Bench(Path()).run(failing)


def test_the_output_of_a_load_comes_back():
    assert Bench(Path()).run([sys.executable, "-c", "print(input())"], stdin=b"fine") == "fine\n"


def test_the_last_line_is_the_last_with_something_in_it():
    assert last_line(b"one\n two \n\n") == "two"
    assert last_line(b"\n") == ""
