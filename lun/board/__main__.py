"""`python -m lun.board`, installed as `lun-board`: see `lun.board.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-board` begins."""
    enter("lun.board.command")


if __name__ == "__main__":
    main()
