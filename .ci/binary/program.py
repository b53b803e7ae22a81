"""The program in front of the archive: launcher.c with the interpreter in it."""

import subprocess
import tempfile
from pathlib import Path

_CONFIG = "/usr/lib/python3.11/config-3.11-x86_64-linux-gnu"


def link(source: Path) -> bytes:
    """Compile and link the program; extension modules find all of CPython in it, but not Expat and zlib."""
    with tempfile.TemporaryDirectory() as directory:
        program = Path(directory, "program")
        subprocess.run(
            [
                *("gcc", "-O2", "-Wall", "-Wextra", "-Werror", "-fstack-protector-strong", "-I/usr/include/python3.11"),
                *("-no-pie", "-s", "-o", program, source),  # Debian's libpython is not position-independent
                *("-Wl,--export-dynamic", "-Wl,--exclude-libs,libexpat.a:libz.a"),
                *("-Wl,--build-id=none", "-Wl,-z,relro,-z,now"),
                *("-Wl,--whole-archive", f"-L{_CONFIG}", "-l:libpython3.11.a", "-Wl,--no-whole-archive"),
                *("-l:libexpat.a", "-l:libz.a", "-lm", "-ldl"),
            ],
            check=True,
        )
        return program.read_bytes()
