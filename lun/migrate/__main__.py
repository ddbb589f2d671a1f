"""`python -m lun.migrate`, installed as `lun-migrate`: see `lun.migrate.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-migrate` begins."""
    enter("lun.migrate.command")


if __name__ == "__main__":
    main()
