"""`python -m lun.memory --base YAML ...`."""

import sys

from lun.memory.command import run

if __name__ == "__main__":
    sys.exit(run())
