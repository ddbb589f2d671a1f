"""`python -m lun.publish`, installed as `lun-publish`: see `lun.publish.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-publish` begins."""
    enter("lun.publish.command")


if __name__ == "__main__":
    main()
