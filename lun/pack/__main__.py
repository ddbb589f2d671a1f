"""`python -m lun.pack`: see `lun.pack.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.pack.command")
