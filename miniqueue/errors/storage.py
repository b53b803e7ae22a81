"""Errors of the store."""

from miniqueue_client.errors import MiniqueueError


class StorageError(MiniqueueError):
    """The store failed."""


class NoSpaceError(StorageError):
    """No space is left on the disk."""


class StoreInUseError(StorageError):
    """Another process has the store open."""


class StoreClosedError(StorageError):
    """The store is closed."""


class StoreFailedError(StorageError):
    """The store failed and could not be reopened."""


class NotAStoreError(StorageError):
    """The directory is neither empty nor a miniqueue store."""


class NotEmptyError(StorageError):
    """The directory is not empty."""


class FormatVersionError(StorageError):
    """The store was written in a format that this version does not read."""

    def __init__(self, source: str, version: int, expected: int) -> None:
        remedy = "; a later miniqueue wrote it: start that one" if version > expected else ""
        super().__init__(f"{source}: format version {version} found, this miniqueue reads up to {expected}{remedy}")
        self.version = version
        self.expected = expected


class CorruptionError(StorageError):
    """Stored bytes are damaged."""
