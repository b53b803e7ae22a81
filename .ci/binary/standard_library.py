"""The standard library, as Debian's Python 3.11 has it, without what a server never imports."""

from pathlib import Path

from archive import Archive
from libraries import Libraries

DIRECTORY = Path("/usr/lib/python3.11")
# Tests, desktop programs, and what installs, documents, or packages other programs.
_LEFT_OUT = {
    *("antigravity", "cgi", "cgitb", "curses", "dbm", "distutils", "dist-packages", "doctest", "ensurepip", "idlelib"),
    *("imaplib", "lib2to3", "msilib", "nntplib", "pdb", "poplib", "pydoc", "pydoc_data", "site-packages"),
    *("sitecustomize", "smtplib", "sqlite3", "telnetlib", "test", "this", "tkinter", "turtle", "turtledemo"),
    *("unittest", "venv", "xmlrpc", "_aix_support", "_bootsubprocess", "_osx_support", "__phello__"),
}
# The others are part of libpython.
_EXTENSIONS = (
    *("_asyncio", "_bz2", "_contextvars", "_ctypes", "_decimal", "_hashlib", "_json", "_lzma", "_multiprocessing"),
    *("_posixshmem", "_queue", "_ssl", "_typing", "_zoneinfo", "mmap", "resource", "termios"),
)


def add_standard_library(archive: Archive, libraries: Libraries) -> None:
    """Add the modules to the archive, and the extension modules to the libraries."""
    for path in sorted(DIRECTORY.rglob("*.py")):
        name = path.relative_to(DIRECTORY)
        if name.parts[0].removesuffix(".py") not in _LEFT_OUT and not name.parts[0].startswith("config-"):
            archive.add_source(str(name), path.read_bytes())
    for module in _EXTENSIONS:
        path = DIRECTORY / f"lib-dynload/{module}.cpython-311-x86_64-linux-gnu.so"
        libraries.add_extension(module, path.read_bytes(), package_of=path)
