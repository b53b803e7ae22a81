"""The former name of `miniqueue_client`, for programs that import it: `from miniqueue.client import Client`.

Every name is that of `miniqueue_client`, which new programs import; so is the module `miniqueue.client.calls.messages`.
A program that has configured the log `miniqueue.client` still has configured that of the client.
"""

import logging
import sys
from typing import TYPE_CHECKING, Any

import miniqueue_client
from miniqueue_client import calls
from miniqueue_client.calls import messages

if TYPE_CHECKING:
    from miniqueue_client import *  # noqa: F403 - a type checker sees the names, which are imported when they are used

__all__: list[str] = []
__all__ += miniqueue_client.__all__

sys.modules |= {f"{__name__}.calls": calls, f"{__name__}.calls.messages": messages}
logging.getLogger("miniqueue_client").parent = logging.getLogger(__name__)


def __getattr__(name: str) -> Any:  # noqa: ANN401 - of whatever type the name is
    """Return a name of `miniqueue_client`."""
    return getattr(miniqueue_client, name)
