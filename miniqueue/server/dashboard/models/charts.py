"""The read model `history`: the lines of the charts, of a topic or of the broker, from what is in memory.

    {"stepSeconds":20,"firstMs":…,"series":{"published":[684.2,null,…],…,"dead":[…]}}      null: unknown

Rates are messages per second since the previous point. A line begins with the process; a topic has 15 minutes of it,
the broker an hour, or a day in steps of five minutes.
"""

from collections.abc import Mapping
from functools import partial
from typing import Final

from miniqueue.access.rights import Right
from miniqueue.access.users import User, check_permitted
from miniqueue.broker.inspect.history import STEP_SECONDS, TOPIC_POINTS, Line, Point
from miniqueue.server.dashboard.models.model import Context, Make, Model, choice_of

_RANGES: Final = ("15m", "1h", "24h")
_SERIES: Final = ("published", "acknowledged", "returned", "ready", "leased", "delayed", "dead")
#: An id that no topic has.
NO_TOPIC: Final = -1


def open_history(context: Context, options: Mapping[str, bytes], user: User | None) -> Make:
    """Open the lines of a topic, or those of the broker, which require the right to monitor all of it."""
    range_ = choice_of(options, "range", _RANGES, "15m")
    if topic := options.get("topic"):
        check_permitted(user, Right.MONITOR, topic, "GET /ui/data/history")
        return partial(_of_topic, context, topic)
    check_permitted(user, Right.MONITOR, None, "GET /ui/data/history of the broker")
    return partial(_of_broker, context, range_)


HISTORY: Final = Model(open_history, ("topic", "range"))


async def _of_broker(context: Context, range_: str) -> dict[str, object]:
    history = context.broker.overview.history
    line = history.of_broker_by_day() if range_ == "24h" else history.of_broker()
    if range_ == "15m":
        line = line._replace(points=line.points[-TOPIC_POINTS:])
    return _shown(context, line, [None if point is None else point.dead for point in line.points])


async def _of_topic(context: Context, name: bytes) -> dict[str, object]:
    broker = context.broker
    history, settings = broker.overview.history, broker.admin.settings_of(name)
    seen = await broker.overview.look()
    row, letters = seen.row_of(name), seen.row_of(settings.dead_letters_of(name))
    line = history.of_topic(NO_TOPIC if row is None else row.topic_id)
    dead: list[int | None]
    if row is not None and row.dead is None:  # those of several topics are in one
        dead = [None] * len(line.points)
    elif letters is None:
        dead = [None if point is None else 0 for point in line.points]
    else:
        dead = [None if point is None else point.depth for point in history.of_topic(letters.topic_id).points]
    return _shown(context, line, dead)


def _shown(context: Context, line: Line, dead: list[int | None]) -> dict[str, object]:
    """Return a line as JSON; `dead` are the dead letters at each point."""
    ticks, step_ms = line.step_seconds // STEP_SECONDS, 1000 * line.step_seconds
    last_ms = context.broker.overview.time_of((line.last_tick + 1) * ticks - 1)
    series: dict[str, object] = {name: [_value(point, name) for point in line.points] for name in _SERIES[:-1]}
    return {
        "stepSeconds": line.step_seconds,
        "firstMs": last_ms - step_ms * (len(line.points) - 1) if line.points else None,
        "series": series | {_SERIES[-1]: dead},
    }


def _value(point: Point | None, name: str) -> float | None:
    value: float | None = None if point is None else getattr(point, name)
    return value
