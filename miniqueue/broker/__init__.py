"""The only asynchronous shell round the core and the store: commits, waiting consumers, ticks."""

from miniqueue.broker.broker import Broker
from miniqueue.broker.clock import Clock, SystemClock
from miniqueue.broker.commit import Commit, Published
from miniqueue.broker.consumer import Consumer

__all__ = ["Broker", "Clock", "Commit", "Consumer", "Published", "SystemClock"]
