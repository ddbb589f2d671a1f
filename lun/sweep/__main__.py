"""`python -m lun.sweep`, installed as `lun-sweep`: see `lun.sweep.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-sweep` begins."""
    enter("lun.sweep.command")


if __name__ == "__main__":
    main()
