"""`python -m lun.pack`, installed as `lun-pack`: see `lun.pack.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-pack` begins."""
    enter("lun.pack.command")


if __name__ == "__main__":
    main()
