"""`python -m lun.local.greet NAME`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.local.greet.command")
