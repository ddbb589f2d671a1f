"""`python main.py --base YAML ... -t`: see `lun.trainer` for the story and `--help` for the flags."""

from lun.cli.entry import train

if __name__ == "__main__":
    train()
