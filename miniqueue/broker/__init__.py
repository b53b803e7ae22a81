"""The only asynchronous shell round the core and the store: commits, waiting consumers, ticks."""

from miniqueue.broker.broker import Broker
from miniqueue.broker.clock import Clock, SystemClock
from miniqueue.broker.commit import Accepted, Commit, Published
from miniqueue.broker.consumer import Consumer

__all__ = ["Accepted", "Broker", "Clock", "Commit", "Consumer", "Published", "SystemClock"]
