"""`python -m lun.sample`, installed as `lun-sample`: see `lun.sample.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-sample` begins."""
    enter("lun.sample.command")


if __name__ == "__main__":
    main()
