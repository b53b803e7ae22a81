"""What peers make the broker keep in memory: accounts of the process, of users or addresses, and of connections.

    process ─┬─ user ── connection                    a charge counts in every account from the connection up
             └─ strangers ── address ── connection    while the client has not authenticated

    over its limit       what happens
      connection         nothing more is read from it, and it is closed if that lasts
      user, address      whatever needs more memory is refused, with LIMIT
      process            at 3/4, caches shrink; at 9/10, what needs more memory is refused for all clients;
                         at the limit, new connections are closed

Settling, deleting, and monitoring never ask for permission, so there is always a way back. A user has at most three
quarters of the process, so that something is left for the others. A broker without users trusts its clients: they
have addresses for users, without such a limit.

What has its own limit and grows in small steps, such as the open commit, is not charged by whoever adds to it, but
measured once a second. So is the memory of the process itself; the part that no account contains counts as `other`.

Knows sizes and names, and nothing of what is measured. Not safe for use by several threads.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import Final

from miniqueue.broker.runtime.tasks import CURRENT_ACTOR
from miniqueue.errors import MemoryLimitError

#: The parts of the process at which caches shrink, and at which requests that need memory are refused.
SHRINK_PART: Final = 3 / 4
REFUSE_PART: Final = 9 / 10
#: The parts of the process for one user; for all clients that have not authenticated; for those of one address.
USER_PART: Final = 3 / 4
STRANGERS_PART: Final = 1 / 4
ADDRESS_PART: Final = 1 / 16
#: How much more memory than the reply itself is used while it is made: what was read, and what was encoded.
MAKING_FACTOR: Final = 3
#: The part of the process for one connection, and the least that it may use.
CONNECTION_PART: Final = 1 / 8
MIN_CONNECTION_BYTES: Final = 16 << 20
#: What the interpreter and the libraries may use beyond what is charged, before it counts as `other`.
SPARE_BYTES: Final = 64 << 20
UNLIMITED: Final = 1 << 62
#: How much of leases may not be counted yet.
MAX_UNCOUNTED_BYTES: Final = 64 << 10


class Purpose(StrEnum):
    """What memory is used for."""

    CACHE = "cache"
    COMMITS = "commits"
    CONNECTIONS = "connections"
    DEDUP_IDS = "dedup_ids"
    EVENTS = "events"
    HISTORY = "history"
    INPUT = "input"
    LEASES = "leases"
    OTHER = "other"
    OUTBOX = "outbox"
    OUTPUT = "output"
    REQUESTS = "requests"
    TOPICS = "topics"
    TRANSACTIONS = "transactions"


class MemoryAccount:
    """The memory that one peer uses.

    Args:
      name: what errors call it, such as `this connection`.
      parent: the account in which every charge counts, too; None for that of the process.
      limit_bytes: how much may be used.
      key: the name of the user, or the address; empty for other accounts.
      setting: what sets the limit.

    Attributes:
      used_bytes: how much is used, the accounts below included.
      child_count: number of accounts below.
      linked_count: how many of them are links, of clients that another process has accepted and counts.
    """

    __slots__ = (
        "_amounts",
        "_is_link",
        "_is_over",
        "_limit_bytes",
        "_parent",
        "_process",
        "_uncounted_bytes",
        "child_count",
        "key",
        "linked_count",
        "name",
        "setting",
        "used_bytes",
    )

    _process: "Memory"

    def __init__(
        self,
        name: str,
        parent: "MemoryAccount | None",
        limit_bytes: int,
        key: str = "",
        setting: str = "-max-memory",
    ) -> None:
        self.name = name
        self.key = key
        self.setting = setting
        self.used_bytes = 0
        self.child_count = self.linked_count = 0
        self._is_link = False
        self._limit_bytes = limit_bytes
        self._is_over = False
        self._uncounted_bytes = 0
        self._amounts: dict[Purpose, int] = {}
        self._parent = parent
        if parent is not None:
            self._process = parent.process
            parent.child_count += 1

    @property
    def process(self) -> "Memory":
        """The account of the process."""
        return self._process

    @property
    def owner(self) -> "MemoryAccount":
        """The account of the user or the address that this connection belongs to; it outlives the connection."""
        return self if self._parent is None else self._parent

    @property
    def is_of_user(self) -> bool:
        """Whether this is the account of a user; `key` is the name."""
        return self._parent is self._process and self.key != ""

    @property
    def user(self) -> str:
        """The name of the user that this connection belongs to; empty if the client has not authenticated."""
        owner = self.owner
        return owner.key if self._process.users.get(owner.key) is owner else ""

    @property
    def limit_bytes(self) -> int:
        """How much may be used."""
        return self._limit_bytes

    @property
    def is_over(self) -> bool:
        """Whether this account uses more than it may; the accounts above are not asked."""
        return self._is_over

    @property
    def is_crowd_over(self) -> bool:
        """Whether these are clients that have not authenticated, and use, of one address or all, more than they may."""
        parent = self._parent
        return parent is not None and parent is not self._process and (self._is_over or parent._is_over)

    def first_over(self) -> "MemoryAccount | None":
        """Return the first account, from this one up, that uses more than it may; None if there is none."""
        account: MemoryAccount | None = self
        while account is not None and not account.is_over:
            account = account._parent
        return account

    def amounts(self) -> dict[Purpose, int]:
        """Return what is used for each purpose, without those for which nothing is."""
        return {purpose: size_bytes for purpose, size_bytes in self._amounts.items() if size_bytes}

    def add(self, purpose: Purpose, size_bytes: int) -> None:
        """Charge memory; a negative size gives it back."""
        account: MemoryAccount | None = self
        while account is not None:
            account.used_bytes = used_bytes = account.used_bytes + size_bytes
            amounts = account._amounts
            amounts[purpose] = amounts.get(purpose, 0) + size_bytes
            if (used_bytes > account._limit_bytes) is not account._is_over:
                account._compare()
            if not used_bytes:
                account._process.drop_unused(account)
            account = account._parent

    def put(self, purpose: Purpose, size_bytes: int) -> None:
        """Charge or give back memory, so that this size is used for a purpose."""
        if change := size_bytes - self._amounts.get(purpose, 0):
            self.add(purpose, change)

    def charge_lease(self, size_bytes: int) -> None:
        """Charge the memory of leased messages; a negative size gives it back.

        Small amounts are collected: this is called for each lease.
        """
        self._uncounted_bytes += size_bytes
        if self._uncounted_bytes > MAX_UNCOUNTED_BYTES:
            self.count_leases()

    def count_leases(self) -> None:
        """Count what `charge_lease` has collected."""
        size_bytes, self._uncounted_bytes = self._uncounted_bytes, 0
        if size_bytes:
            self.add(Purpose.LEASES, size_bytes)

    def set_limit(self, limit_bytes: int, setting: str) -> None:
        """Change how much may be used, and what sets that."""
        self._limit_bytes, self.setting = limit_bytes, setting
        self._compare()

    def become(self, user: str) -> None:
        """Belong to a user from now on."""
        self._move(self._process.of_user(user))

    def forget(self, address: str) -> None:
        """Belong to an address from now on: the client is not authenticated any more."""
        self._move(self._process.of_address(address))

    def close(self) -> None:
        """Give everything back: the connection has ended."""
        for purpose, size_bytes in self.amounts().items():
            self.add(purpose, -size_bytes)
        self._leave()
        self._parent = None

    def be_link(self) -> None:
        """Count as a link from now on, and not as a connection."""
        if not self._is_link and self._parent is not None:
            self._is_link = True
            self._parent.linked_count += 1

    def _move(self, parent: "MemoryAccount") -> None:
        before = self._parent
        if before is parent or before is None:
            return
        parent.child_count += 1
        parent.linked_count += self._is_link
        for purpose, size_bytes in self.amounts().items():
            parent.add(purpose, size_bytes)
            before.add(purpose, -size_bytes)
        self._leave()
        self._parent = parent

    def _leave(self) -> None:
        parent = self._parent
        if parent is not None:
            parent.child_count -= 1
            parent.linked_count -= self._is_link
            self._process.drop_unused(parent)

    def _compare(self) -> None:
        is_over = self.used_bytes > self._limit_bytes
        if is_over is not self._is_over:
            self._is_over = is_over
            self._process.note_over(1 if is_over else -1)


class Memory(MemoryAccount):
    """The account of the process, and the directory of those of users and addresses.

    Args:
      max_bytes: how much all peers together may make the broker use.
      has_users: whether clients authenticate; otherwise they are not limited apart from each other.

    Attributes:
      max_bytes: how much all peers together may make the broker use.
      quota: returns the limit of a user, if the operator has set one.
      over_count: number of accounts that use more than they may.
      freed: called when an account does not use more than it may anymore.
    """

    __slots__ = (
        "_addresses",
        "_base_bytes",
        "_gauges",
        "_has_users",
        "_is_granted",
        "_resident_bytes",
        "_return_freed",
        "_strangers",
        "_users",
        "freed",
        "max_bytes",
        "over_count",
        "quota",
    )

    def __init__(self, max_bytes: int = UNLIMITED, *, has_users: bool = False) -> None:
        super().__init__("this broker", None, _part(max_bytes, REFUSE_PART))
        self._process = self
        self.max_bytes = max_bytes
        self.quota: Callable[[str], int | None] = lambda _user: None
        self._has_users = has_users
        self._resident_bytes: Callable[[], int] | None = None
        self._base_bytes = 0
        self._return_freed: Callable[[], None] = lambda: None
        self.over_count = 0
        self.freed: Callable[[], None] = lambda: None
        self._is_granted = False
        self._users: dict[str, MemoryAccount] = {}
        self._addresses: dict[str, MemoryAccount] = {}
        self._gauges: dict[Purpose, Callable[[], int]] = {}
        limit_bytes = _part(max_bytes, STRANGERS_PART) if has_users else UNLIMITED
        self._strangers = MemoryAccount("clients that have not authenticated", self, limit_bytes)

    @property
    def is_full(self) -> bool:
        """Whether there is no memory for another connection."""
        return self.used_bytes > self.max_bytes

    @property
    def users(self) -> Mapping[str, MemoryAccount]:
        """The accounts of the users that use memory now, by name."""
        return self._users

    def connect(self, address: str) -> MemoryAccount:
        """Return the account of a new connection from an address."""
        limit_bytes = max(_part(self.max_bytes, CONNECTION_PART), MIN_CONNECTION_BYTES)
        return MemoryAccount("this connection", self.of_address(address), limit_bytes)

    def of_user(self, name: str) -> MemoryAccount:
        """Return the account of a user."""
        account = self._users.get(name)
        if account is None:
            limit_bytes, setting = self.limit_of_user(name)
            account = self._users[name] = MemoryAccount(f"user {name}", self, limit_bytes, name, setting)
        return account

    def limit_of_user(self, name: str) -> tuple[int, str]:
        """Return how much a user may use, and what sets that: the quota of the user, or the share of any user."""
        share_bytes, quota_bytes = _part(self.max_bytes, USER_PART), self.quota(name)
        if quota_bytes is None or quota_bytes > share_bytes:
            return share_bytes, "-max-memory"
        return quota_bytes, "max_memory_bytes"

    def connection_count(self, user: str | None) -> int:
        """Return the number of connections of a user; with None, of all clients."""
        if user is None:
            accounts = (*self._users.values(), *self._addresses.values())
            return sum(account.child_count - account.linked_count for account in accounts)
        account = self._users.get(user)
        return 0 if account is None else account.child_count - account.linked_count

    def of_address(self, address: str) -> MemoryAccount:
        """Return the account of the clients of an address that have not authenticated."""
        account = self._addresses.get(address)
        if account is None:
            limit_bytes = _part(self.max_bytes, ADDRESS_PART) if self._has_users else UNLIMITED
            account = MemoryAccount(f"clients from {address}", self._strangers, limit_bytes, address)
            self._addresses[address] = account
        return account

    def measure(self, purpose: Purpose, gauge: Callable[[], int]) -> None:
        """Charge the process what `gauge` returns, whenever `tick` is called."""
        self._gauges[purpose] = gauge

    def watch(self, resident_bytes: Callable[[], int], return_freed: Callable[[], None] = lambda: None) -> None:
        """Charge the process what it uses beyond all charges and what it uses now, whenever `tick` is called.

        `return_freed` returns freed memory to the system; it is called before anything is refused because of it.
        """
        self._resident_bytes, self._base_bytes, self._return_freed = resident_bytes, resident_bytes(), return_freed

    def tick(self) -> None:
        """Measure what is not charged when it changes; called once a second."""
        for purpose, gauge in self._gauges.items():
            self.put(purpose, gauge())
        for account in (*self._users.values(), *self._addresses.values()):
            account.count_leases()
            self.drop_unused(account)
        for name, account in self._users.items():
            account.set_limit(*self.limit_of_user(name))
        if self._resident_bytes is not None:
            charged_bytes = self.used_bytes - self._amounts.get(Purpose.OTHER, 0)
            known_bytes = self._base_bytes + SPARE_BYTES + charged_bytes
            other_bytes = self._resident_bytes() - known_bytes
            if other_bytes > 0 and charged_bytes + other_bytes > self._limit_bytes:
                self._return_freed()
                other_bytes = self._resident_bytes() - known_bytes
            self.put(Purpose.OTHER, max(0, other_bytes))

    def cache_bytes(self, most_bytes: int, least_bytes: int) -> int:
        """Return how much a cache may use: less than `most_bytes` when the process has used three quarters."""
        spare_bytes = _part(self.max_bytes, SHRINK_PART) - self.used_bytes + self._amounts.get(Purpose.CACHE, 0)
        return min(most_bytes, max(least_bytes, spare_bytes))

    def check(self) -> None:
        """Raise MemoryLimitError if the client that acts now may not use more memory."""
        if self.over_count and not self._is_granted:
            account = account_of(CURRENT_ACTOR.get()) or self
            if (over := account.first_over()) is not None:
                raise MemoryLimitError(over.name, over.limit_bytes, over.setting)

    @contextmanager
    def granted(self) -> Iterator[None]:
        """Make `check` pass while the block runs, which does not wait: it completes what was checked before."""
        self._is_granted = True
        try:
            yield
        finally:
            self._is_granted = False

    @contextmanager
    def reserve(self, size_bytes: int) -> Iterator[None]:
        """Charge the client that acts now while the block makes a reply of at most this size; raises as `check`.

        Otherwise many could begin before the first reply is charged.
        """
        self.check()
        account = account_of(CURRENT_ACTOR.get()) or self
        account.add(Purpose.OUTPUT, MAKING_FACTOR * size_bytes)
        try:
            yield
        finally:
            account.add(Purpose.OUTPUT, -MAKING_FACTOR * size_bytes)

    def note_over(self, change: int) -> None:
        """Count an account that is over its limit, or is not any more."""
        self.over_count += change
        if change < 0:
            self.freed()

    def drop_unused(self, account: MemoryAccount) -> None:
        """Forget the account of a user or an address that nothing uses."""
        if account.used_bytes or account.child_count:
            return
        for accounts in (self._users, self._addresses):
            if accounts.get(account.key) is account:
                del accounts[account.key]


def account_of(actor: object) -> MemoryAccount | None:
    """Return the account of whoever acts; None for the broker itself."""
    account: MemoryAccount | None = getattr(actor, "account", None)
    return account


def user_of(actor: object) -> str:
    """Return the name of the user that acts; empty for the broker itself, and for a client that is no user."""
    user: str = getattr(actor, "user", "")
    return user


def _part(max_bytes: int, part: float) -> int:
    return max_bytes if max_bytes >= UNLIMITED else int(max_bytes * part)
