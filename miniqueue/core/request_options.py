"""What somebody can say about a message that wants a reply, beside what every publisher can.

Knows figures only.
"""

from math import nan
from typing import Final

from miniqueue.core.delay import parse_delay
from miniqueue.core.look_errors import InvalidOptionError
from miniqueue.core.publish_options import PublishOptions
from miniqueue.errors import InvalidDelayError

DEFAULT_TIMEOUT_SECONDS: Final = 30.0
MAX_TIMEOUT_SECONDS: Final = 3600.0


def parse_timeout(text: str) -> float:
    """Return the seconds that `text` says; raises InvalidDelayError."""
    try:
        seconds = parse_delay(text)
    except InvalidDelayError:
        seconds = nan
    if not 0 < seconds <= MAX_TIMEOUT_SECONDS:  # nor for nan
        raise InvalidDelayError(f"a timeout is a number of seconds, more than 0 and at most {MAX_TIMEOUT_SECONDS:.0f}")
    return seconds


def check_request(options: PublishOptions) -> PublishOptions:
    """Return `options` if somebody can wait for a reply to such a message; raises InvalidOptionError otherwise."""
    if options.delay_seconds is not None or options.at_ms is not None or options.dedup_id or options.unique_key:
        raise InvalidOptionError("a request is published at once and for itself: no delay, at, dedup or unique")
    return options
