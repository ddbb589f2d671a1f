"""`python -m lun.annotate`: see `lun.annotate.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.annotate.command")
