"""`python -m lun.compare RUN ...`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.compare.command")
