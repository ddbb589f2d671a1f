"""`python -m lun.posthoc_ema`: see `lun.posthoc_ema.command`."""

import sys

from lun.posthoc_ema.command import run

if __name__ == "__main__":
    sys.exit(run())
