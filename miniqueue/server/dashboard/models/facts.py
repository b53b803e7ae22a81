"""What the page shows of the process, and parts of the process that this room does not know; `run` passes it in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from miniqueue.server.config.config import ShownSetting
from miniqueue.server.views.clients import ConnectedClient


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """What is known when the broker starts, and functions that return what changes.

    Attributes:
      name: the name of the machine.
      monitor_port: the port of this page.
      resp_port: the port of RESP, and `resp_tls` whether it requires TLS.
      is_exposed: whether other machines can reach the page; then it is served over TLS.
      sync: when messages are synced to the disk: `always`, `interval`, or `never`.
      storage: `leveldb` or `memory`, and `store_path` where.
      started_at_ms: when the broker started, in ms since 1970, and `process_started_at_ms` this process of it.
      settings: the settings of the process.
      min_free_bytes: the free space below which publishes are refused.
      clients: returns the connected clients.
      rss_bytes: returns the memory of the process.
      loop_lag: returns the lag of the event loop by quantile, in seconds.
      certificate_expires_at: returns when the certificate expires.
      followers: returns how far each copy that follows is behind, in seconds, which can be unknown, and bytes.
    """

    name: str
    monitor_port: int
    resp_port: int
    resp_tls: bool = False
    is_exposed: bool = False
    sync: str = "always"
    storage: str = "leveldb"
    store_path: str = ""
    started_at_ms: int = 0
    process_started_at_ms: int = 0
    settings: Sequence[ShownSetting] = ()
    min_free_bytes: int = 0
    clients: Callable[[], Iterable[ConnectedClient]] = tuple
    rss_bytes: Callable[[], int] = int
    loop_lag: Callable[[], Mapping[str, float] | None] = dict
    certificate_expires_at: Callable[[], datetime | None] = lambda: None
    followers: Callable[[], Mapping[str, tuple[float | None, int]]] = dict
