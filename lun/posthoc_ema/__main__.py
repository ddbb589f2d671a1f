"""`python -m lun.posthoc_ema`: see `lun.posthoc_ema.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.posthoc_ema.command")
