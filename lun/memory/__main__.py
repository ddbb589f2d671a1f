"""`python -m lun.memory --base YAML ...`."""

from lun.cli.entry import enter

if __name__ == "__main__":
    enter("lun.memory.command")
