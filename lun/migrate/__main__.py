"""`python -m lun.migrate`: see `lun.migrate.command`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.migrate.command")
