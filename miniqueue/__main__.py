"""`python -m miniqueue` is the same as `miniqueue`."""

import sys

from miniqueue.cli import main

if __name__ == "__main__":
    sys.exit(main())
