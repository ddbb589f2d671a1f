"""`python -m lun.convert`: see `lun.convert.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.convert.command")
