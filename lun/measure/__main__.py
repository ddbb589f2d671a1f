"""`python -m lun.measure`, installed as `lun-measure`: see `lun.measure.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-measure` begins."""
    enter("lun.measure.command")


if __name__ == "__main__":
    main()
