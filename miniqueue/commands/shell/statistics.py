"""How the statistics of topics are shown to people."""

from types import MappingProxyType
from typing import Final

from miniqueue.commands.shell.texts import shown_age, shown_bytes, shown_rate

_RATES: Final = [f"{kind}_rate_{span}s" for kind in ("publish", "deliver", "ack", "return") for span in (1, 10, 60)]
_AGES: Final = (
    *("oldest_seconds", "retained_seconds", "unread_seconds"),
    *("latency_p50_seconds", "latency_p99_seconds"),
)
#: What returns the text of a statistic, by its name; others are shown as they are.
SHOWS: Final = MappingProxyType(
    {
        "size_bytes": shown_bytes,
        "retained_bytes": shown_bytes,
        **dict.fromkeys(_AGES, shown_age),
        **dict.fromkeys(_RATES, shown_rate),
    }
)
