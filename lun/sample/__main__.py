"""`python -m lun.sample DIR`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.sample.command")
