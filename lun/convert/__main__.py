"""`python -m lun.convert`: see `lun.convert.command`."""

import sys

from lun.convert.command import run

if __name__ == "__main__":
    sys.exit(run())
