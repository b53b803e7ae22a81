"""Refused requests: the errors that RESP and HTTP clients receive."""

from miniqueue_client.errors import MiniqueueError, RequestError

# --- the bytes of the client are invalid; the connection ends -------------------------------------------------


class ProtocolError(MiniqueueError):
    """Protocol error."""


class ForeignProtocolError(ProtocolError):
    """The bytes belong to another protocol than that of this port."""


# --- the request is invalid; connection and lease stay --------------------------------------------------------


class UnknownCommandError(RequestError):
    """Unrecognised command received."""


class InvalidOptionError(RequestError):
    """The value of an option is invalid."""

    code = "BADOPTION"


class TransactionRefusedError(RequestError):
    """A part of a transaction cannot be carried out, so nothing of the transaction was done; has the code of its error.

    Args:
      part: such as `command 2 of 3`.
      error: why it cannot be carried out.
    """

    def __init__(self, part: str, error: MiniqueueError) -> None:
        super().__init__(f"{part}: {error}; nothing of the transaction was done")
        self.code = error.code


class TransactionAbortedError(RequestError):
    """Transaction discarded because of previous errors."""

    code = "EXECABORT"


# --- messages -------------------------------------------------------------------------------------------------


class PayloadTooLargeError(RequestError):
    """The message is larger than this broker, or its topic, accepts; `limit` names what limits it."""

    code = "TOOBIG"

    def __init__(self, size_bytes: int, max_bytes: int, limit: str = "-max-message-size") -> None:
        super().__init__(f"message of {size_bytes} bytes is over the limit of {max_bytes} ({limit})")
        self.size_bytes = size_bytes
        self.max_bytes = max_bytes


class InvalidDelayError(RequestError):
    """A delay is a number of seconds, or a duration such as 1h30m, 0 or more."""

    code = "BADDELAY"


class InvalidAttributesError(RequestError):
    """The headers or other attributes of a message are invalid or too long."""

    code = "BADATTRIBUTE"


class SchemaError(RequestError):
    """The message does not fit the schema of its topic.

    Args:
      problem: the place in the message, and the reason.
      index: the index of the message among those that are published together.
      count: the number of these messages.
    """

    code = "SCHEMA"

    def __init__(self, problem: str, index: int = 0, count: int = 1) -> None:
        super().__init__(f"message {index + 1} of {count}: {problem}" if count > 1 else problem)
        self.problem = problem
        self.index = index


class UnsupportedEncodingError(RequestError):
    """A body is taken as it is: no Content-Encoding but identity."""

    code = "BADENCODING"


class InvalidLineError(RequestError):
    """A line of a JSON-lines body could not be used."""

    code = "BADLINE"


class DedupMismatchError(RequestError):
    """The dedup id was used for another content: the digests differ; publish other content under another id."""

    code = "MISMATCH"


class UnknownMessageError(RequestError):
    """There is no such message: it never was, or was acknowledged."""

    code = "NOMESSAGE"


class MessageStateError(RequestError):
    """The message is in a state in which this cannot be done with it."""

    code = "BADSTATE"


class UnknownTaskError(RequestError):
    """There is no such task: it never was, or ended long ago."""

    code = "NOTASK"


class UnknownScheduleError(RequestError):
    """There is no such schedule."""

    code = "NOSCHEDULE"


# --- topics and their settings --------------------------------------------------------------------------------


class InvalidTopicError(RequestError):
    """A topic name is 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADTOPIC"


class CrossShardError(RequestError):
    """Topics that one act concerns are in different shards.

    Args:
      topics: their names.
    """

    code = "CROSSSHARD"

    def __init__(self, *topics: bytes) -> None:
        names = " and ".join(f"'{topic.decode('utf-8', 'replace')}'" for topic in topics)
        subject = f"topics {names} are in different shards" if len(topics) > 1 else f"topic {names} is in another shard"
        super().__init__(f"{subject}; topics with equal tags, such as {{a}}.x and {{a}}.y, are together")


class SpreadTopicError(RequestError):
    """An act that a spread topic, whose parts are in several shards, does not have.

    Args:
      topic: its name.
      act: what is not possible, such as `SCHEDULE SET`.
    """

    code = "CROSSSHARD"

    def __init__(self, topic: bytes, act: str) -> None:
        super().__init__(f"topic '{topic.decode('utf-8', 'replace')}' is spread over several shards; {act} needs one")


class RefusedPartError(RequestError):
    """Another shard has refused its part of an act on a spread topic.

    Args:
      code: the code of its error.
      text: the text.
    """

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code


class OneShardError(RequestError):
    """A request concerns the store of one shard.

    Args:
      path: the path of the request.
      shard_count: how many shards there are.

    Attributes:
      shard_count: the same.
    """

    code = "CROSSSHARD"

    def __init__(self, path: str, shard_count: int) -> None:
        self.shard_count = shard_count
        super().__init__(
            f"each shard has a store of its own; request /shards/0{path} to /shards/{shard_count - 1}{path}, one by one"
        )


class UnknownTopicError(RequestError):
    """There is no such topic."""

    code = "NOTOPIC"


class TopicExistsError(RequestError):
    """There is such a topic already."""

    code = "EXISTS"


class UnknownPartitionError(RequestError):
    """The topic has no such partition."""

    code = "NOPARTITION"


class InvalidSettingError(RequestError):
    """A setting of a topic is unknown, or its value is invalid.

    Args:
      name: the name of the setting.
      allowed: the valid values, or `no setting; …`.
    """

    code = "BADSETTING"

    def __init__(self, name: str, allowed: str) -> None:
        super().__init__(f"{name} {'is' if allowed.startswith('no ') else 'must be'} {allowed}")
        self.name = name


# --- groups and members ---------------------------------------------------------------------------------------


class InvalidGroupError(RequestError):
    """The name of a group must be 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADGROUP"


class UnknownGroupError(RequestError):
    """The topic has no such group."""

    code = "NOGROUP"


class GroupExistsError(RequestError):
    """The topic has such a group already."""

    code = "GROUPEXISTS"


class GroupInUseError(RequestError):
    """The group cannot be deleted: it has consumers, or is the only one of its topic."""

    code = "GROUPINUSE"


class InvalidMemberError(RequestError):
    """The name of a member must be 1 to 255 bytes of UTF-8 without control characters, white space or '/'."""

    code = "BADMEMBER"


class MembersOnlyError(RequestError):
    """The group has members, each with partitions of its own: name one with MEMBER."""

    code = "MEMBERS"


class NoMembersError(RequestError):
    """The group has consumers that are no members, which compete for all partitions; they must leave first."""

    code = "MEMBERS"


class SessionOverError(RequestError):
    """The session of a member is over: it held messages and settled none for too long."""

    code = "SESSIONOVER"

    def __init__(self, member: bytes, session_seconds: float) -> None:
        super().__init__(
            f"member {member.decode()}: it held messages and settled none for {session_seconds:g} s, its session; "
            "they and its partitions go to others; settle sooner, or subscribe with a longer SESSION"
        )


# --- copies that follow the store ------------------------------------------------------------------------------


class PositionLostError(RequestError):
    """A copy cannot be continued: the writes after its position are not kept, or it is in another history.

    Args:
      change: number of the change of the position.
    """

    code = "NOPOSITION"

    def __init__(self, change: int) -> None:
        super().__init__(f"the writes after change {change} are not kept here; make a new copy")


# --- leases ---------------------------------------------------------------------------------------------------


class NothingOutstandingError(RequestError):
    """No message is outstanding."""

    code = "NOLEASE"


class UnknownReceiptError(RequestError):
    """A receipt belongs to no message that is outstanding here."""

    code = "NOLEASE"

    def __init__(self, unknown_count: int, count: int) -> None:
        super().__init__(f"{unknown_count} of {count} receipts belong to no message outstanding here")
        self.unknown_count = unknown_count
        self.count = count


class MessageOutstandingError(RequestError):
    """Error getting next value for consumer."""

    code = "OUTSTANDING"


class InvalidPrefetchError(RequestError):
    """A prefetch is a whole number from 1 to 10000."""

    code = "BADPREFETCH"

    def __init__(self, max_prefetch: int = 10_000) -> None:
        super().__init__(f"A prefetch is a whole number from 1 to {max_prefetch}")


# --- requests and replies -------------------------------------------------------------------------------------


class NoRequestError(RequestError):
    """The message asks for no reply; it is still leased."""

    code = "NOREQUEST"


class RequesterGoneError(RequestError):
    """The requester no longer waits for the reply; the message is acknowledged."""

    code = "GONE"


# --- the client is not authenticated, or not permitted --------------------------------------------------------


class NotAuthenticatedError(RequestError):
    """Authentication required."""

    code = "NOAUTH"

    # The text of Redis, including its period: some clients compare it.
    def __init__(self, text: str = "Authentication required.") -> None:
        super().__init__(text)


class WrongSecretError(RequestError):
    """The user or the secret is wrong; the error does not say which."""

    code = "WRONGPASS"

    # The text of Redis.
    def __init__(self) -> None:
        super().__init__("invalid username-password pair or user is disabled.")


class NotPermittedError(RequestError):
    """The user has no right to do this."""

    code = "NOPERM"

    # The text of Redis.
    def __init__(self, act: str) -> None:
        super().__init__(f"this user has no permissions to run {act}")


class TooManyAttemptsError(RequestError):
    """There were too many wrong secrets from this address; try again in a minute."""

    code = "TOOMANY"


# --- the broker cannot carry out the request now --------------------------------------------------------------


class UnavailableError(MiniqueueError):
    """The broker cannot carry out the request now."""

    code = "UNAVAILABLE"


class ReadOnlyError(UnavailableError):
    """The store failed; publishing is refused until it has been reopened and checked."""

    code = "READONLY"


class FullError(UnavailableError):
    """The disk is full; publishing is refused until there is space again."""

    code = "FULL"


class LimitReachedError(UnavailableError):
    """A limit of this broker has been reached."""

    code = "LIMIT"


class MemoryLimitError(LimitReachedError):
    """The client, its user, or the broker uses all the memory that it may; settling and deleting go on.

    Args:
      account: the account whose memory is used up.
      limit_bytes: how much it may use.
      setting: what sets the limit.
    """

    def __init__(self, account: str, limit_bytes: int, setting: str = "-max-memory") -> None:
        super().__init__(f"the memory for {account} is used up, {limit_bytes >> 20} MiB ({setting}); try again later")


class ShareLimitError(LimitReachedError):
    """A user has used up the share of a pool that one user may have, or a quota of the user.

    Args:
      whose: the owner of the share: `user ada`, or `topics without an owner`.
      pool: what is shared: `topics`, `waiting requests`.
      limit: how much of it one user may have.
      setting: what sets the limit.
    """

    def __init__(self, whose: str, pool: str, limit: int, setting: str) -> None:
        super().__init__(f"the {pool} of {whose} are as many as one user may have, {limit} ({setting})")


class RateLimitError(LimitReachedError):
    """A user publishes more messages a second than the quota of the user permits.

    Args:
      user: the name of the user.
      limit: the quota.
      seconds: after this time the user can publish again.
    """

    seconds: float = 1

    def __init__(self, user: str, limit: int, seconds: float) -> None:
        super().__init__(
            f"user {user} publishes more than {limit} messages a second (max_messages_per_second); "
            f"try again in {seconds:.3g} s"
        )
        self.seconds = seconds


class TopicFullError(LimitReachedError):
    """The topic is full.

    Args:
      unit: what the limit counts: `messages`, or `bytes of messages`.
      setting: the setting or flag with the limit.
      fitting_count: the number of messages, from the first one on, for which there was room.
      outcome: what happened to the request.
    """

    def __init__(self, unit: str, setting: str, fitting_count: int = 0, outcome: str = "nothing was added") -> None:
        super().__init__(f"the topic holds as many {unit} as it may ({setting}); {outcome}")
        self.unit = unit
        self.setting = setting
        self.fitting_count = fitting_count


class NoValidatorError(UnavailableError):
    """The topic has a schema, and this broker has no validator for it."""

    code = "NOVALIDATOR"


class PausedError(UnavailableError):
    """The topic is paused: it takes no messages now."""

    code = "PAUSED"


class NoReplyError(UnavailableError):
    """No reply arrived in time; the request has expired."""

    code = "TIMEOUT"


class ShardAwayError(UnavailableError):
    """The shard with the topic does not answer now; it comes back by itself."""

    code = "TRYAGAIN"


class DrainingError(UnavailableError):
    """The broker is shutting down."""

    code = "DRAINING"


class OutcomeUnknownError(UnavailableError):
    """The store failed during the commit: the messages may or may not have been kept."""

    code = "UNKNOWN"


class BrokenOffError(UnavailableError):
    """The store failed during the request, which was aborted; try again."""
