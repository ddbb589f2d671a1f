"""`python -m lun.inspect DIR`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.inspect.command")
