"""`python main.py --base YAML ... -t`: see `lun.trainer` for the story and `--help` for the flags."""

import sys

from lun.trainer import run

if __name__ == "__main__":
    sys.exit(run())
