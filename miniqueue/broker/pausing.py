"""Pauses topics: on the way in, on the way out, or both; for a time, or until somebody ends it.

              publish              hand out              settle, look, delete
    in        PausedError          goes on               goes on
    out       goes on              nothing; who waits    goes on
                                   goes on waiting

A pause is a setting of the topic, the time at which it ends, so it outlives the broker. The topic itself has only two
flags, which the paths that do the work look at; ticks take them away when the time has come.
"""

from collections.abc import Callable, Iterable

from miniqueue.broker.admission import Admission
from miniqueue.broker.clock import Clock
from miniqueue.broker.commit import Commit
from miniqueue.broker.configuring import Configurator
from miniqueue.broker.topic import Topic
from miniqueue.core.pause import Side, ends_at_ms


class Pauser:
    """Pauses topics and lets them go on.

    Args:
      configurator: keeps until when a topic is paused.
      admission: says when the broker stops: then all are paused on the way out, whatever anybody says.
      clock: tells when that is over.
      resumed: called for each topic that hands out again.
    """

    def __init__(
        self, configurator: Configurator, admission: Admission, clock: Clock, *, resumed: Callable[[Topic], None]
    ) -> None:
        self._configurator = configurator
        self._admission = admission
        self._clock = clock
        self._resumed = resumed
        self._paused: dict[Topic, None] = {}

    def pause(self, name: bytes, side: Side = Side.BOTH, seconds: float | None = None) -> Commit:
        """Pause a topic at once; return the commit with which that is durable.

        Args:
          name: of the topic.
          side: what is paused; a side that is not named stays as it is.
          seconds: for how long; None until `resume`.

        Raises:
          InvalidDelayError: the time is negative, not a number or too long.
          InvalidTopicError, UnknownTopicError, UnavailableError: nothing was changed.
        """
        return self._end_at(name, side, ends_at_ms(self._clock.next_ms(), seconds))

    def resume(self, name: bytes, side: Side = Side.BOTH) -> Commit:
        """Let a topic go on; also one that is not paused. Returns and raises as `pause`."""
        return self._end_at(name, side, 0)

    def _end_at(self, name: bytes, side: Side, at_ms: int) -> Commit:
        return self._configurator.change(name, dict.fromkeys(side.settings, at_ms))

    def apply(self, topics: Iterable[Topic]) -> None:
        """Let topics be as their settings say; where the broker stops, nothing is handed out any more."""
        now_ms = self._clock.now_ms()
        for topic in topics:
            was_paused_out = topic.is_paused_out
            topic.is_paused_in = topic.settings.paused_in_until_ms > now_ms
            topic.is_paused_out = topic.settings.paused_out_until_ms > now_ms or self._admission.is_stopping
            if topic.is_paused_in or topic.is_paused_out:
                self._paused[topic] = None
            else:
                self._paused.pop(topic, None)
            if was_paused_out and not topic.is_paused_out:
                self._resumed(topic)

    def tick(self) -> None:
        """End the pauses that are over, and forget topics that are no more."""
        self.apply(list(self._paused))
