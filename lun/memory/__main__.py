"""`python -m lun.memory --base YAML ...`."""

from lun.launch.entry import enter

if __name__ == "__main__":
    enter("lun.memory.command")
