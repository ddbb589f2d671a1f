"""`python -m lun.data.cache`: see `lun.run.caches_alone`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.run.caches_alone")
