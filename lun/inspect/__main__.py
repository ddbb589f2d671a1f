"""`python -m lun.inspect`, installed as `lun-inspect`: see `lun.inspect.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-inspect` begins."""
    enter("lun.inspect.command")


if __name__ == "__main__":
    main()
