"""`python -m lun.data.cache`: see `lun.data.cache.command`."""

from lun.launch.entry import enter

if __name__ == "__main__":
    enter("lun.data.cache.command")
