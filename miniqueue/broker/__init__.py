"""The broker: topics on a store, with group commits, waiting consumers, and ticks, on one event loop.

The broker is the only asynchronous layer around the core, which decides, and the store, which keeps. Read `broker`
first, which assembles all parts; then the rooms `engine` and `commit`, which all parts use; then the others.
The broker must not know the protocols or the servers.
"""

from miniqueue.broker.broker import Broker
from miniqueue.broker.commit.journal import Accepted, Commit, Published
from miniqueue.broker.consume.consumer import Consumer
from miniqueue.broker.runtime.clock import Clock, SystemClock

__all__ = ["Accepted", "Broker", "Clock", "Commit", "Consumer", "Published", "SystemClock"]
