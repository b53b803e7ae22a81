"""What may be changed now, and why not.

                                  publishes        settles, deletions
    all is well                   yes              yes
    the disk is full              FullError        yes
    the store is being reopened   ReadOnlyError    no: nobody holds anything
      on a full disk              FullError        no
    stopping, at rest             DrainingError    yes
    stopping                      DrainingError    no

It decides nothing but this: the journal says when the store fails, the watch of the disk when it is full.
"""

import structlog

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
    """Says to everything new whether it may come in.

    Attributes:
      refusal: why nothing can be published now, or None.
      is_full: whether the disk was full when somebody last looked.
      is_open: whether the store is.
    """

    def __init__(self) -> None:
        self.refusal: type[UnavailableError] | None = None
        self.is_full = False
        self.is_open = True
        self._is_resting = False

    def check(self) -> None:
        """Raise why nothing can be published now, if so."""
        if self.refusal is not None:
            raise self.refusal

    def check_change(self) -> None:
        """Raise why nothing can be changed now, not even what takes no space, if so."""
        if self.refusal is not None and not self.may_change:
            raise self.refusal

    @property
    def may_change(self) -> bool:
        """Whether messages can be settled and deleted."""
        return self.is_open and (self._is_resting or self.refusal in (None, FullError))

    @property
    def is_stopping(self) -> bool:
        """Whether the broker stops: it is coming to rest, or on from there."""
        return self.refusal is DrainingError

    def set_full(self, is_full: bool, free_bytes: int | None = None) -> None:
        """Refuse publishes while the disk is full, or take them again; `free_bytes` is for the log."""
        if is_full and not self.is_full:
            log.error("the disk is full; messages are refused, settling and reading go on", free_bytes=free_bytes)
        elif self.is_full and not is_full:
            log.warning("the disk has room again; messages are taken", free_bytes=free_bytes)
        self.is_full = is_full
        if self.may_change and not self._is_resting:
            self.refusal = FullError if is_full else None

    def shut(self, fault: MiniqueueError) -> type[UnavailableError]:
        """Refuse everything because of a fault of the store; return what is raised from now on."""
        self.is_open = False
        if isinstance(fault, NoSpaceError):
            self.set_full(True)
        if self.refusal is not DrainingError:
            self.refusal = FullError if isinstance(fault, NoSpaceError) else ReadOnlyError
        return self.refusal

    def open(self) -> None:
        """Take everything again: the store has been reopened."""
        self.is_open = True
        if self.refusal is not DrainingError:
            self.refusal = FullError if self.is_full else None

    def rest(self) -> None:
        """Refuse publishes from now on: the broker is about to stop. What is held may be settled, until `drain`."""
        if self.refusal is not DrainingError:
            self.refusal, self._is_resting = DrainingError, True

    def drain(self) -> None:
        """Refuse everything from now on: the broker stops."""
        self.refusal, self._is_resting = DrainingError, False
