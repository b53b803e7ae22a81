"""What happened to a message, as lines: each step with the time since the one before; then what became of it.

    2026-12-01 08:00:00.000Z          published    by resp 10.0.0.7:51004 client 5
    2026-12-01 08:00:01.500Z   +1.5s  delivered    group default  attempt 1  receipt 1
    …
    group default: 2 attempts, acknowledged after 1m 30s
    in all 1m 30s

Pure: no connection, no clock.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from miniqueue.commands.shell.texts import shown_duration, shown_time
from miniqueue.server.process.escaping import escape
from miniqueue_client import Step

#: Events after which a group is done with a message, at its position.
_ENDS: Final = frozenset(
    {"acknowledged", "rejected", "expired", "dropped", "purged", "missed", "dead_lettered", "redriven", "cancelled"}
)
#: Events with which the time of a message at a position begins.
_BEGINNINGS: Final = frozenset({"published", "scheduled", "arrived"})
#: The text of a `reason` that is a number instead, by event.
_NUMBERS: Final[Mapping[str, str]] = {"sought": "next {}", "left_out": "{} steps"}


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a group has done with a message.

    Attributes:
      topic: the topic.
      id: the id of the message there.
      group: the group.
      attempts: number of deliveries.
      end: the event with which it was done; "" if it is not.
      seconds: the time from the commit to that event, or to the last one.
    """

    topic: str
    id: str
    group: str
    attempts: int
    end: str
    seconds: float


def attempts_of(steps: Sequence[Step]) -> list[int]:
    """Return for each step which delivery it is, to its group; 0 for other events."""
    counts: dict[tuple[str, str, str], int] = {}
    numbers = []
    for step in steps:
        key = step.topic, step.id, step.group
        if step.event == "delivered":
            counts[key] = counts.get(key, 0) + 1
        numbers.append(counts[key] if step.event == "delivered" else 0)
    return numbers


def outcomes_of(steps: Sequence[Step]) -> list[Outcome]:
    """Return what each group has done with the message, in the order of their first events."""
    begun_at_ms: dict[tuple[str, str], int] = {}
    by_group: dict[tuple[str, str, str], list[Step]] = {}
    for step in steps:
        if step.event in (*_BEGINNINGS, "committed"):
            begun_at_ms[step.topic, step.id] = step.at_ms
        if step.group:
            by_group.setdefault((step.topic, step.id, step.group), []).append(step)
    return [_outcome(key, some, begun_at_ms.get(key[:2], some[0].at_ms)) for key, some in by_group.items()]


def seconds_in_all(steps: Sequence[Step]) -> float:
    """Return the time from the first step to the last one."""
    return (steps[-1].at_ms - steps[0].at_ms) / 1000 if steps else 0.0


def json_steps(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """Return the steps as JSON, with the time since the step before, without what they do not have."""
    rows = []
    before_ms = steps[0].at_ms if steps else 0
    for step, attempt in zip(steps, attempts_of(steps), strict=True):
        members = {
            "event": step.event,
            "at_ms": step.at_ms,
            "after_seconds": (step.at_ms - before_ms) / 1000,
            "topic": step.topic,
            "id": step.id,
            "group": step.group,
            "attempt": attempt,
            "by": step.by,
            "member": step.member,
            "receipt": step.receipt,
            "reason": step.reason,
            "from": step.came_from and step.came_from._asdict(),
            "to": step.went_to and step.went_to._asdict(),
            **step.extra,
        }
        rows.append({name: value for name, value in members.items() if value or name == "after_seconds"})
        before_ms = step.at_ms
    return rows


def lines_of(steps: Sequence[Step], topic: str, message_id: str) -> list[str]:
    """Return a line for each step, and one wherever the message continues in another topic, or with another id."""
    lines, position, before_ms = [], (topic, message_id), None
    width = max((len(_event(step)) for step in steps), default=0)
    for step, attempt in zip(steps, attempts_of(steps), strict=True):
        if (step.topic, step.id) != position:
            position = step.topic, step.id
            lines.append(f"-- {_position(*position)}")
        after = "" if before_ms is None else f"+{shown_duration((step.at_ms - before_ms) / 1000)}"
        before_ms = step.at_ms
        details = "  ".join(_details(step, attempt))
        lines.append(f"{shown_time(step.at_ms)}  {after:>8}  {_event(step).ljust(width)}  {details}".rstrip())
    return lines


def summary_of(steps: Sequence[Step]) -> list[str]:
    """Return a line for what each group has done, and one with the time in all."""
    outcomes = outcomes_of(steps)
    has_moved = len({(outcome.topic, outcome.id) for outcome in outcomes}) > 1
    lines = [_outcome_line(outcome, has_moved) for outcome in outcomes]
    return [*lines, f"in all {shown_duration(seconds_in_all(steps))}"]


def _outcome(key: tuple[str, str, str], steps: Sequence[Step], begun_at_ms: int) -> Outcome:
    ends = [step for step in steps if step.event in _ENDS]
    attempts = sum(step.event == "delivered" for step in steps)
    last = ends[-1] if ends else steps[-1]
    return Outcome(*key, attempts, ends[-1].event if ends else "", (last.at_ms - begun_at_ms) / 1000)


def _outcome_line(outcome: Outcome, names_position: bool) -> str:
    where = f" at {_position(outcome.topic, outcome.id)}" if names_position else ""
    attempts = f"{outcome.attempts} attempt{'' if outcome.attempts == 1 else 's'}"
    end = f"{_words(outcome.end)} after {shown_duration(outcome.seconds)}" if outcome.end else "not done with it"
    return f"group {escape(outcome.group)}{where}: {attempts}, {end}"


def _details(step: Step, attempt: int) -> list[str]:
    texts = {
        "from": step.came_from and _position(*step.came_from),
        "to": step.went_to and _position(*step.went_to),
        "by": escape(step.by),
        "group": escape(step.group),
        "attempt": str(attempt) if attempt else "",
        "member": escape(step.member),
        "receipt": escape(step.receipt),
    }
    details = [f"{name} {text}" for name, text in texts.items() if text]
    if step.reason:
        details.append(_NUMBERS.get(step.event, "reason {}").replace("{}", escape(step.reason)))
    return details


def _event(step: Step) -> str:
    return _words(step.event)


def _words(event: str) -> str:
    return escape(event).replace("_", " ")


def _position(topic: str, message_id: str) -> str:
    return f"{escape(topic)} {escape(message_id)}"
