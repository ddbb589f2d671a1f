"""`python -m lun.memory`, installed as `lun-memory`: see `lun.memory.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-memory` begins."""
    enter("lun.memory.command")


if __name__ == "__main__":
    main()
