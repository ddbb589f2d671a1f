"""`python -m lun.convert`, installed as `lun-convert`: see `lun.convert.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-convert` begins."""
    enter("lun.convert.command")


if __name__ == "__main__":
    main()
