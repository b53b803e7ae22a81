"""Tiny windows, pages, chunks and caches, so that short runs cross every border."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import structlog

from miniqueue.broker.acts import by_filter
from miniqueue.broker.engine import engine
from miniqueue.broker.stored import load
from miniqueue.core.cursor import cursor
from miniqueue.core.log import partition


@contextmanager
def small_limits() -> Iterator[None]:
    """Also without the log: faults are the rule here."""
    processors = structlog.get_config()["processors"]
    kept = list(processors)
    processors[:] = [_drop]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "CACHE_BYTES", 600)
        patch.setattr(cursor, "LOG_WINDOW_BYTES", 400)
        patch.setattr(cursor, "RECORD_WINDOW_BYTES", 400)
        patch.setattr(load, "PAGE_ITEMS", 3)
        patch.setattr(by_filter, "STEP_MESSAGES", 2)
        patch.setattr(partition, "MAX_CHUNK_MESSAGES", 2)
        yield
    processors[:] = kept


def _drop(*_: object) -> dict[str, object]:
    raise structlog.DropEvent
