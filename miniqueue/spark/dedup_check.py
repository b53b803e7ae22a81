"""Warns at the start of a write if a retry could come after the topic has forgotten the ids of the first attempt.

    attempt 1 ── waits for its broker, up to blockSeconds ──✗   attempt 2 ── … ──✗   …  attempt n
    └──────────────────────── the window must be as long as all of this ──────────────────────┘

This is the part of the retry time that is known in advance. How long the task itself runs, and how long a stream is
down before it is restarted, is not known.
"""

import logging
import re
from math import ceil
from typing import Final

from pyspark.sql import SparkSession

from miniqueue.spark.options import Options
from miniqueue_client import Client, RefusedError

log = logging.getLogger("miniqueue.spark")

#: Maximum number of attempts of a task; Spark's default.
DEFAULT_ATTEMPTS: Final = 4
#: The broker's default of the setting `dedup_window_seconds`, for topics that do not exist yet, and its maximum.
DEFAULT_WINDOW_SECONDS: Final = 120.0
MAX_WINDOW_SECONDS: Final = 604_800
#: Masters in this process: `local`, `local[4]`, and with a number of attempts `local[4,2]`.
_LOCAL: Final = re.compile(r"local(?:\[\s*[\d*]+\s*(?:,\s*(\d+)\s*)?\])?")


def attempts_of(spark: SparkSession) -> int:
    """Return the maximum number of attempts of a task in a session, after which the job fails."""
    if (local := _LOCAL.fullmatch(spark.sparkContext.master or "")) is not None:
        return int(local[1] or 1)
    return int(spark.sparkContext.getConf().get("spark.task.maxFailures", str(DEFAULT_ATTEMPTS)) or DEFAULT_ATTEMPTS)


def warn_of_short_window(client: Client, options: Options, attempts: int) -> None:
    """Log a warning if the topic may forget the ids of a task before its last attempt; raises ClientError.

    Args:
      client: a client of the broker.
      options: the options of the write.
      attempts: maximum number of attempts of a task.
    """
    if not options["deduplicate"]:
        return
    retry_seconds = options["blockSeconds"] * attempts
    wait = f"{options['blockSeconds']:.0f} s (blockSeconds)"
    retries = f"the attempts of a task (at most {attempts}), each of which can wait {wait}"
    advice = f"TOPIC SET {options['topic']} dedup_window_seconds {ceil(min(retry_seconds, MAX_WINDOW_SECONDS))}"
    try:
        window_seconds = _window_seconds(client, options["topic"])
    except RefusedError as exc:
        log.warning("the dedup window of %s is unknown (%s); for %s: %s", options["topic"], exc, retries, advice)
        return
    if window_seconds < retry_seconds:
        log.warning(
            "the dedup window of %s is %.0f s, too short for %s: a later retry stores rows twice; %s",
            options["topic"],
            window_seconds,
            retries,
            advice,
        )


def _window_seconds(client: Client, topic: str) -> float:
    try:
        return float(client.topic_settings(topic)["dedup_window_seconds"])
    except RefusedError as exc:
        if exc.code != "NOTOPIC":
            raise
        return DEFAULT_WINDOW_SECONDS
