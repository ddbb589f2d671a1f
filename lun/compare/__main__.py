"""`python -m lun.compare`, installed as `lun-compare`: see `lun.compare.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-compare` begins."""
    enter("lun.compare.command")


if __name__ == "__main__":
    main()
