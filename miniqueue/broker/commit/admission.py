"""Admission: which changes are accepted now, and the error for those that are not.

                                  publishes        settles, deletions
    normal operation              yes              yes
    the disk is full              FullError        yes
    the store is being reopened   ReadOnlyError    no: no lease is valid
      on a full disk              FullError        no
    stopping, at rest             DrainingError    yes
    stopping                      DrainingError    no

A client that uses all the memory it may gets MemoryLimitError for what would need more, at any time.

This module only keeps the state. The journal reports when the store fails, the disk watch when the disk is full.
"""

import structlog

from miniqueue.broker.runtime.accounts import Memory
from miniqueue.errors import (
    DrainingError,
    FullError,
    MiniqueueError,
    NoSpaceError,
    ReadOnlyError,
    UnavailableError,
)

log = structlog.get_logger()


class Admission:
    """Accepts or refuses new publishes and other changes.

    Args:
      memory: what clients use, and may use.

    Attributes:
      refusal: error that a publish raises now; None if publishes are accepted.
      may_change: whether messages can be settled, and messages and topics deleted.
      is_full: whether the disk was full at the last check.
      free_bytes: free space on the disk at the last check; None if there is no disk.
      is_open: whether the store is open.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.refusal: type[UnavailableError] | None = None
        self.may_change = True
        self.is_full = False
        self.free_bytes: int | None = None
        self.is_open = True
        self._is_resting = False

    def check(self) -> None:
        """Raise `refusal` if publishes are refused now, or MemoryLimitError if they are to the client that acts."""
        if self.refusal is not None:
            raise self.refusal
        if self._memory.over_count:
            self._memory.check()

    def check_change(self) -> None:
        """Raise `refusal` if all changes are refused now, even those that need no space."""
        if self.refusal is not None and not self.may_change:
            raise self.refusal

    @property
    def is_stopping(self) -> bool:
        """Whether the broker is stopping: `rest` or `drain` was called."""
        return self.refusal is DrainingError

    def set_full(self, is_full: bool, free_bytes: int | None = None) -> None:
        """Refuse publishes while the disk is full, then accept them again; `free_bytes` is only logged."""
        if is_full and not self.is_full:
            log.error("the disk is full; messages are refused, settling and reading go on", free_bytes=free_bytes)
        elif self.is_full and not is_full:
            log.warning("the disk has room again; messages are taken", free_bytes=free_bytes)
        self.is_full = is_full
        if self.may_change and not self._is_resting:
            self._refuse(FullError if is_full else None)

    def shut(self, fault: MiniqueueError) -> type[UnavailableError]:
        """Refuse all changes because the store has failed; return the error that is raised from now on."""
        self.is_open = False
        if isinstance(fault, NoSpaceError):
            self.set_full(True)
        refusal: type[UnavailableError] = FullError if isinstance(fault, NoSpaceError) else ReadOnlyError
        refusal = DrainingError if self.is_stopping else refusal
        self._refuse(refusal)
        return refusal

    def open(self) -> None:
        """Accept changes again after the store was reopened."""
        self.is_open = True
        refusal = FullError if self.is_full else None
        self._refuse(DrainingError if self.is_stopping else refusal)

    def rest(self) -> None:
        """Refuse publishes from now on, before the broker stops; leased messages can be settled until `drain`."""
        if not self.is_stopping:
            self._is_resting = True
            self._refuse(DrainingError)

    def drain(self) -> None:
        """Refuse all changes from now on: the broker stops."""
        self._is_resting = False
        self._refuse(DrainingError)

    def _refuse(self, refusal: type[UnavailableError] | None) -> None:
        """Refuse publishes with an error from now on; None accepts them."""
        self.refusal = refusal
        self.may_change = self.is_open and (self._is_resting or refusal in (None, FullError))
