"""Imports structlog without Rich, which `cli` does before any other module imports structlog.

structlog imports Rich if it is installed, to show tracebacks in color. The log shows none in color (`server/process/
logs.py`), and the import of Rich takes a fifth of the CPU time of a startup. Commands that print tables import Rich
later.
"""

import sys
from importlib import import_module


def import_structlog() -> None:
    """Import structlog as if Rich were not installed; a Rich that is already imported stays."""
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it raises ImportError
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]


import_structlog()
