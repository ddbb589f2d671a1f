"""`python -m lun.inspect DIR`."""

import sys

from lun.inspect.command import run

if __name__ == "__main__":
    sys.exit(run())
