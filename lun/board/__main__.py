"""`python -m lun.board`: see `lun.board.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.board.command")
