"""`python -m lun.posthoc_ema`, installed as `lun-posthoc-ema`: see `lun.posthoc_ema.command`."""

from lun.cli.entry import enter


def main() -> None:
    """Where `lun-posthoc-ema` begins."""
    enter("lun.posthoc_ema.command")


if __name__ == "__main__":
    main()
