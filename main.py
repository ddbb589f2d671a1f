"""`python main.py --base YAML ... -t`: see `lun.trainer` for the story and `--help` for the flags."""

from lun.launch.ending import leave
from lun.trainer import run

if __name__ == "__main__":
    leave(run())
