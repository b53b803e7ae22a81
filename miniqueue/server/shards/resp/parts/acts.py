"""Acts on many messages of a spread topic: MESSAGES, REDRIVE, and PURGE, of which each part carries out its own.

    MESSAGES DELETE orders LIMIT 100 ─▶ part 0: LIMIT 100 ─ 70 ─▶ part 1: LIMIT 30 ─ 30 ─▶ 100
    MESSAGES DELETE orders TASK      ─▶ a task in each part: 1700000000000, 1700000000001 ─▶ 1700000000000-1700000000001
    TASK GET 1700000000000-1700000000001 ─▶ both, as one

With TASK, the parts work at the same time, so that LIMIT and RATE are divided among them; otherwise one after the
other. An error of one part does not keep the others from their work.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from miniqueue.core.options.amounts import parse_limit, parse_rate
from miniqueue.errors import MiniqueueError
from miniqueue.server.shards.resp.parts.merging import ABSENT, error_of, map_of, parsed, row_of
from miniqueue.server.shards.resp.parts.pages import AskPart
from miniqueue.server.shards.resp.parts.words import flag_of, option_of, with_option
from miniqueue.server.views.wholes import TASK_JOIN, whole_task
from miniqueue.wire.resp_parser import Command
from miniqueue.wire.resp_replies import bulk, encode, integer

#: The least rate of a part.
LEAST_RATE: Final = 1e-9
#: Words before the options of each command.
_WORDS: Final = {b"MESSAGES": 3, b"REDRIVE": 2, b"PURGE": 2}


async def act(ask: AskPart, part_count: int, protocol: int, command: Command) -> bytes:
    """Return the reply to an act on many messages; raises RequestError."""
    word = command[0].upper()
    start = _WORDS[word]
    limit = None if (text := option_of(command, start, b"LIMIT")) is None else parse_limit(text)
    flag = flag_of(command, start)
    if flag == b"TASK":
        return await _begin(ask, part_count, command, start, limit)
    if word == b"REDRIVE":
        return await _redrive(ask, part_count, protocol, command, limit)
    answers, count = list[bytes](), 0
    for number in range(part_count):
        if limit is not None:
            if count >= limit:
                break
            command = with_option(command, start, b"LIMIT", b"%d" % (limit - count))
        answers.append(await ask(number, command))
        count += int(answers[-1][1:]) if answers[-1].startswith(b":") else 0
    error = error_of(answers)
    if error is None:
        return integer(count)
    return b"%b; of all parts, %d are done\r\n" % (error[:-2], count) if count else error


async def _redrive(ask: AskPart, part_count: int, protocol: int, command: Command, limit: int | None) -> bytes:
    is_report = flag_of(command, 2) == b"REPORT"
    asked = command if is_report else [*command, b"REPORT"]
    answers, reports, moved = list[bytes](), list[dict[bytes, Any]](), 0
    for number in range(part_count):
        if limit is not None and moved >= limit:  # how many remain is still to be known
            stats = await ask(number, [b"STATS", command[1]])
            if not stats.startswith(ABSENT):
                remaining = None if stats.startswith(b"-") else map_of(parsed(stats))[b"ready"]
                reports.append({b"moved": 0, b"remaining": remaining, b"error": None})
            continue
        own = asked if limit is None else with_option(asked, 2, b"LIMIT", b"%d" % (limit - moved))
        answers.append(await ask(number, own))
        if not answers[-1].startswith(b"-"):
            reports.append(map_of(parsed(answers[-1])))
            moved += reports[-1][b"moved"]
    if (refusal := error_of(answers)) is not None and not moved:
        return refusal
    failures = [report[b"error"] for report in reports if report[b"error"] is not None]
    failure = failures[0] if failures else None if refusal is None else refusal[1:-2]
    known = [report[b"remaining"] for report in reports if report[b"remaining"] is not None]
    remaining = sum(known) if len(known) == len(reports) and refusal is None else None
    if is_report:
        return encode({"moved": moved, "remaining": remaining, "error": failure}, protocol)
    if failure is None:
        return integer(moved)
    text = b"how many remain is not known" if remaining is None else b"%d remain" % remaining
    return b"-%b; %d were moved, %b\r\n" % (failure, moved, text)


# --- tasks ----------------------------------------------------------------------------------------------------


async def _begin(ask: AskPart, part_count: int, command: Command, start: int, limit: int | None) -> bytes:
    """Begin a task in each part; return the id of all. If a part refuses, those that have begun are cancelled."""
    if (text := option_of(command, start, b"RATE")) is not None:
        per_second = max(LEAST_RATE, parse_rate(text) / part_count)
        command = with_option(command, start, b"RATE", b"%.9f" % per_second)
    ids, answers = dict[int, bytes](), list[bytes]()
    try:
        for number in range(part_count):
            if limit is not None:
                own_limit = limit // part_count + (number < limit % part_count)
                if not own_limit:
                    break
                command = with_option(command, start, b"LIMIT", b"%d" % own_limit)
            answers.append(await ask(number, command))
            if not answers[-1].startswith(b"-"):
                ids[number] = parsed(answers[-1])
    except MiniqueueError:
        await _cancel(ask, ids)
        raise
    error = error_of(answers)
    if error is None:
        return bulk(TASK_JOIN.encode().join(ids.values()))
    await _cancel(ask, ids)
    return error


async def _cancel(ask: AskPart, ids: Mapping[int, bytes]) -> None:
    """Cancel the tasks of some parts, which have begun in vain."""
    for number, task in ids.items():
        with suppress(MiniqueueError):  # the error that matters is another one
            await ask(number, [b"TASK", b"CANCEL", task])


async def on_tasks(ask: Callable[[bytes], Awaitable[bytes]], ids: Sequence[bytes], protocol: int) -> bytes:
    """Return the reply to TASK GET or CANCEL for the tasks of several parts; `ask` asks for one of them."""
    answers = [await ask(each) for each in ids]
    error = next((answer for answer in answers if answer.startswith(b"-")), None)
    if error is not None or answers[0].startswith(b"+"):
        return error or answers[0]
    return encode(whole_task([row_of(parsed(answer)) for answer in answers], "ended_at_ms"), protocol)
