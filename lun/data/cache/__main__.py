"""`python -m lun.data.cache`, installed as `lun-data-cache`: see `lun.run.caches_alone`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-data-cache` begins."""
    enter("lun.run.caches_alone")


if __name__ == "__main__":
    main()
