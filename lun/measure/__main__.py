"""`python -m lun.measure`: see `lun.measure.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.measure.command")
