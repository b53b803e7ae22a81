"""The process: `miniqueue`, and `python -m miniqueue`. Handles signals before it imports the command."""

import sys

from miniqueue.interrupts import Interrupts, exit_code


def main() -> int:
    """Run the command and return its exit code."""
    try:
        with Interrupts():
            from miniqueue.cli import main as run  # noqa: PLC0415 - takes longer than a signal may have to wait

            return run()
    except KeyboardInterrupt as exc:
        return exit_code(exc)


if __name__ == "__main__":
    sys.exit(main())
