"""`python -m lun.sample DIR`."""

import sys

from lun.sample.command import run

if __name__ == "__main__":
    sys.exit(run())
