"""Programs that tests drive the broker with; a test whose program is missing is skipped, except in CI."""

import shutil

import pytest


def needs(*programs: str) -> pytest.MarkDecorator:
    """Return a mark that skips a test unless all `programs` are installed."""
    missing = [program for program in programs if shutil.which(program) is None]
    return pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")
