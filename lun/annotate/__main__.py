"""`python -m lun.annotate`, installed as `lun-annotate`: see `lun.annotate.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-annotate` begins."""
    enter("lun.annotate.command")


if __name__ == "__main__":
    main()
