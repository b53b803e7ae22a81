"""The results as text for a terminal, and as the page docs/benchmarks.md. Pure."""

import textwrap
from collections.abc import Iterable, Sequence
from itertools import groupby

from benchmarks.results import Measured, Results, Verdict, verdicts
from benchmarks.scenario import Scenario

#: Of a line of the page.
PROSE_CHARS = 110

HEAD = """\
# Benchmarks

Written by `make bench ARGS=--write`; do not edit. Every figure is the median of {rounds}, in which the
contenders of a scenario took turns, so that what slows the machine down for a while slows all of them.
Beside it stand the least and the most. A ratio is the median of the ratios within each round. The load comes
from other processes on the same machine: redis-benchmark, h2load, curl, and clients of ours in
`benchmarks/clients`. A rate is that of a load of about {load_seconds} s, or of the count that its command tells.

```sh
apt-get install redis-server redis-tools beanstalkd nats-server nghttp2-client curl openjdk-17-jre-headless
export EXTRAS=dev,client,granian,spark    # without it, the jobs of Spark are left out
make bench ARGS=--quick    # those with goals but without Spark, small counts: two minutes
make bench                 # everything
make bench ARGS=--write    # everything, and this page
make bench ARGS='--add --rounds 5 --only Publish'    # more rounds of some, added to those on this page
```

A peer that is not installed is left out and named; one that takes no part in a scenario is named below its
table, with the reason. Those that are measured run on free ports and on empty stores; stop the services that
the packages may have started, for they take time from them.

Durability differs. miniqueue by default, Redis with `AOF always` and beanstalkd with `-f 0` reply when a
message is on the disk. JetStream in files syncs every two minutes on its own settings; `interval`, `everysec`,
`never`, off and in memory give up some or all of it.

A publishing connection sends a run of messages (the pipeline), waits for all replies, and sends the next. One
that consumes settles what it has in hand before it gets more. For latency, publishers send at a fixed rate and
do not wait for replies; the time counts from the write of a message to its arrival at a consumer. CPU time is
that of all threads of the server.
"""

#: Of a figure that is next to its goal.
MOST_DECIMALS = 7


def number(value: float) -> str:
    """Return a figure with as many digits as it deserves."""
    return f"{value:,.{_decimals(value)}f}"


def _decimals(value: float) -> int:
    return 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2


def text(scenario: Scenario, measured: Measured) -> str:
    """Return a scenario for a terminal."""
    lines = [scenario.name]
    for contender, figure, middle, spread, ratio in rows(scenario, measured):
        lines.append(f"  {contender:<36} {figure:<24} {middle:>12}  {spread:<24} {ratio}".rstrip())
    lines += [f"  {name:<36} not available: {reason}" for name, reason in measured.absent.items()]
    lines += [f"  goal: {goal_text(verdict)}" for verdict in verdicts(scenario, measured)]
    return "\n".join(lines) + "\n"


def rows(scenario: Scenario, measured: Measured) -> list[tuple[str, str, str, str, str]]:
    """Return for each contender and figure: both names, median, spread, and the first contender's ratio to it."""
    first = scenario.contenders[0].name
    cells = []
    names = (contender.name for contender in scenario.contenders if contender.name in measured.rounds)
    for contender in names:
        for figure, values in measured.rounds[contender].items():
            middle, ratio = measured.median(contender, figure), measured.compared(first, contender, figure)
            assert middle is not None
            spread = f"({number(min(values))} – {number(max(values))})"
            shown = "" if contender == first or ratio is None else f"× {ratio:.2f}"
            cells.append((contender, figure, number(middle), spread, shown))
    return cells


def goal_text(verdict: Verdict) -> str:
    """Return a goal and what became of it, in one line."""
    goal = verdict.goal
    subject = f"{goal.of}, {goal.figure}"
    if goal.against:
        subject += f", {'against' if goal.by == 'ratio' else 'over'} {goal.against}"
    bound, value = _bound_and_value(verdict)
    return f"{subject}: {value}, wanted {goal.wants} {bound}: {verdict.word}"


def _bound_and_value(verdict: Verdict) -> tuple[str, str]:
    """Return both figures; with more digits than usual where they would look the same, and are not."""
    bound, value = verdict.goal.bound, verdict.value
    if value is None:
        return number(bound), "–"
    if bound == value or round(bound, _decimals(bound)) != round(value, _decimals(value)):
        return number(bound), number(value)
    texts = ((f"{bound:,.{digits}f}", f"{value:,.{digits}f}") for digits in range(_decimals(value), MOST_DECIMALS))
    return next((pair for pair in texts if pair[0] != pair[1]), (str(bound), str(value)))


def _rounds(results: Results) -> str:
    counts = set[int]().union(*(measured.round_counts for measured in results.scenarios.values()))
    if counts <= {1}:
        return "1 round"
    return f"{min(counts)} rounds" if len(counts) == 1 else f"{min(counts)} to {max(counts)} rounds"


def page(scenarios: Sequence[Scenario], results: Results, plots: Iterable[tuple[str, str]]) -> str:
    """Return docs/benchmarks.md; `plots` are titles and paths, as seen from docs/."""
    measured = [scenario for scenario in scenarios if scenario.name in results.scenarios]
    parts = [HEAD.format(rounds=_rounds(results), load_seconds=f"{results.load_seconds:g}")]
    if results.is_quick:
        parts.append(
            "**This was a quick run: counts, also those in names, are a twentieth. The figures say little.**\n"
        )
    parts += ["## Machine\n", _machine(results), "## Goals\n", _goals(measured, results)]
    shown = [f"![{title}]({path})\n" for title, path in plots]
    parts += ["## Plots\n", *shown] if shown else []
    for group, members in groupby(measured, key=lambda scenario: scenario.group):
        listed = list(members)
        parts += [f"## {group}\n", _table(listed, results), _notes(listed), _absent(listed, results)]
    parts += ["## Commands\n", _commands(measured, results)]
    return "\n".join(part for part in parts if part)


def _machine(results: Results) -> str:
    cells = [*results.machine.items(), ("took", f"{results.seconds / 60:.0f} minutes")]
    cells.append(("made by", ", ".join(f"`{command}`" for command in results.made_by)))
    return _markdown("| | |", [f"| {name} | {value} |" for name, value in cells])


def _goals(scenarios: Sequence[Scenario], results: Results) -> str:
    lines = []
    for scenario in scenarios:
        for verdict in verdicts(scenario, results.scenarios[scenario.name]):
            goal = verdict.goal
            against = f"{'ratio to' if goal.by == 'ratio' else 'more than'} {goal.against}" if goal.against else ""
            bound, value = _bound_and_value(verdict)
            cells = [scenario.name, goal.of, goal.figure, against, f"{goal.wants} {bound}", value, verdict.word]
            lines.append(f"| {' | '.join(cells)} |")
    return _markdown("| scenario | contender | figure | against | wanted | found | |", lines)


def _table(scenarios: Sequence[Scenario], results: Results) -> str:
    lines = []
    for scenario in scenarios:
        name = scenario.name
        for cells in rows(scenario, results.scenarios[name]):
            lines.append(f"| {' | '.join([name, *cells])} |")
            name = ""
    return _markdown("| scenario | contender | figure | median | least – most | first ÷ this |", lines)


def _notes(scenarios: Sequence[Scenario]) -> str:
    """Return the notes, each with the scenarios that share it."""
    notes = dict.fromkeys(scenario.note for scenario in scenarios if scenario.note)
    named = {note: "; ".join(scenario.name for scenario in scenarios if scenario.note == note) for note in notes}
    return "".join(f"{_wrapped(f'- *{names}*: {note}')}\n" for note, names in named.items())


def _wrapped(item: str) -> str:
    return textwrap.fill(item, PROSE_CHARS, subsequent_indent="  ", break_on_hyphens=False)


def _absent(scenarios: Sequence[Scenario], results: Results) -> str:
    absent = [
        f"| {scenario.name} | {contender} | {reason} |"
        for scenario in scenarios
        for contender, reason in results.scenarios[scenario.name].absent.items()
    ]
    return _markdown("| not available | contender | because |", absent) if absent else ""


def _commands(scenarios: Sequence[Scenario], results: Results) -> str:
    measured = [results.scenarios[scenario.name] for scenario in scenarios]
    servers = dict.fromkeys(line for part in measured for lines in part.servers.values() for line in lines)
    parts = ["Ports, folders, files and certificates are left out (…). The servers:\n", _shell(servers)]
    parts.append("The loads:\n")
    for scenario, part in zip(scenarios, measured, strict=True):
        lines = [f"{line}  # {contender}" for contender, commands in part.commands.items() for line in commands]
        summary = f"<details><summary>{scenario.name}</summary>\n"
        parts.append(f"{summary}\n{_shell(lines)}\n</details>\n")
    return "\n".join(parts)


def _shell(lines: Iterable[str]) -> str:
    return "\n".join(["```sh", *lines, "```"]) + "\n"


def _markdown(header: str, lines: Sequence[str]) -> str:
    return "\n".join([header, "|---" * (header.count("|") - 1) + "|", *lines]) + "\n"
