"""`python -m lun.publish`: see `lun.publish.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.publish.command")
