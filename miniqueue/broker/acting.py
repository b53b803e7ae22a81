"""Who acts now: set by whoever carries out what a client asks for, read where it is noted who did something.

A context of its own goes with every task, so what a client is waited for does not change it. It is spelled only when it
is noted.
"""

from contextvars import ContextVar
from typing import SupportsBytes

#: Nobody, where the broker acts of itself.
ACTING: ContextVar[SupportsBytes] = ContextVar("ACTING", default=b"")
