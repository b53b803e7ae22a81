"""Measurements of miniqueue beside its peers, all in one run: `python -m benchmarks --help`.

__main__     what to run, and where the results go
scenarios/   what is measured: a table for each kind of work
running      contenders in turn, several rounds
queues       the contenders: how each is started and filled
servers      the processes under measurement
loads        the processes that measure: redis-benchmark, h2load, curl, and clients/
results      medians, ratios, goals
report, plots, machine   docs/benchmarks.md
shards       what docs/shards.md states: `python -m benchmarks.shards --help`
call_paths   functions and changes of file along one message: `python -m benchmarks.call_paths --help`
"""
